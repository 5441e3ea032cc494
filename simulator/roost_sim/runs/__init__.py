"""One run: a trace, a cluster and a policy in, what became of each job out.

Lives here: the driver that plays Slurm for the engine, and its results.
Does not belong here: figures worked out from results, and many runs.
"""
