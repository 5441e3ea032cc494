"""Measures programs alone and beside each other on a GPU, for a site's own table of pairs.

Not here: what is learned of the pairs.
"""
