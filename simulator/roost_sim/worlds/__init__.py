"""Worlds: how fast jobs run where they are, by measured profiles and shared links.

Lives here: profiles, tiers, neighbours, restarts.
Does not belong here: what a policy knows about it (information).
"""
