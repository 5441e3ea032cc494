"""Preemption and migration: which running jobs are stopped, and for which waiting job.

Lives here: preemption policies, and the plans that wait until their GPUs are free.
Does not belong here: the Slurm commands that stop a job.
"""
