"""The choice of an engine's policies: named stacks, kinds with their numbers, and their assembly.

Here: plain data that a configuration gives and a journal keeps, and the policies made from it.
Not here: reading YAML or models from files (`roostd.config`, `roost_formats.models`).
"""
