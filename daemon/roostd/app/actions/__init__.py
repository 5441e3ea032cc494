"""Carries the engine's actions out in Slurm: pins, leases, comments, stops of jobs.

One short task an action, one at a time for each job; refusals go back to the engine as events.
Not here: decisions, and Slurm's own commands, which `roostd.slurm` runs.
"""
