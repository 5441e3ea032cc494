"""Figures: completion times, bounds, fairness, occupancy.

Lives here: what is computed from the results of one run.
Does not belong here: comparisons of several runs (sweeps).
"""
