"""The graph network: clusters and decisions to learn from, its training, its release.

Not here: the network itself, which is in `networks`.
"""
