"""What timers run while roostd is away: pins given back, first seats of shared GPUs kept taken.

Works without roostd and without its state, by what Slurm shows of each job.
Not here: what roostd does when it is back.
"""
