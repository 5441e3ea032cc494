"""Preemption rules of the literature: which jobs are stopped for which.

Lives here: rules over running jobs.
Does not belong here: carrying a stop out (the engine, and runs).
"""
