"""Which candidate wins: the score slot, with the heuristic beside it.

Lives here: asking a score policy, falling back, and the record of how a choice came about.
Does not belong here: models and their files (roost_formats.models).
"""
