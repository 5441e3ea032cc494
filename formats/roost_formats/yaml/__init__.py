"""YAML files that people write: every key knows its line, and every problem is reported at once.

Lives here: the tree with line numbers, and problems in words.
Does not belong here: what keys a file has.
"""
