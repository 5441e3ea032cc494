"""Placement rules of the literature and of stock Slurm: which GPUs a job gets.

Lives here: candidate policies, scattered placements included.
Does not belong here: the order of jobs.
"""
