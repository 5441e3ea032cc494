"""One run: simulates a trace on a cluster under a policy; the result of each job comes out.

Lives here: the driver that takes Slurm's place for the engine, and its results.
Does not belong here: figures computed from results, and many runs.
"""
