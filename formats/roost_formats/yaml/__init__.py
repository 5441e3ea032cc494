"""YAML files that people write: the line of every key is known, all problems are reported at once.

Lives here: the tree with line numbers, and the descriptions of problems.
Does not belong here: the keys of a particular file.
"""
