"""Sweeps: many runs on all cores, their intervals, tables and reports.

Lives here: engines that perform cases, results files, comparisons, tuning.
Does not belong here: one run.
"""
