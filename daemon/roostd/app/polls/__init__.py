"""Polls Slurm, and makes events of what has changed: jobs, nodes, holds, answers to questions.

Also what follows from a view of the queue: which jobs Roost leaves to Slurm.
Not here: how Slurm's output is read, which is in `roostd.slurm`.
"""
