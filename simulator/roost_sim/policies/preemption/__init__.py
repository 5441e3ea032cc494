"""Preemption rules of the literature: which running jobs are preempted for a waiting job.

Lives here: rules over running jobs.
Does not belong here: plans and their execution (the engine, and runs).
"""
