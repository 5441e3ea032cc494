"""Teaches a small net to score candidates as the heuristic does, and measures how well it agrees.

Not here: the file that comes of it, which is in `release`.
"""
