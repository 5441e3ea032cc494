"""Turns trained networks into the files that a daemon loads, where all readings of them agree.

Not here: the release of the graph network, which lives with its training in `graph`.
"""
