"""Replays of a daemon's journal, as it was or under another policy.

Lives here: repeating recorded runs, and what-if comparisons.
Does not belong here: the journal's format (roost_formats.journal).
"""
