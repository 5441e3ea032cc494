"""Limits on what a job may ask for: beyond one of them Roost leaves the job to plain Slurm.

Every number of a request is its user's choice, and Slurm accepts many that no cluster can meet
(`-N1-49999999`). roostd reads every waiting job at each look, in the thread that also decides and
keeps the heartbeat fresh, so a job may cost microseconds and no more. What only parsing needs is in
roost_slurm.limits.
"""

# A job gets a shape for each number of nodes that it may have; the engine tries each of them at
# each pass.
MOST_SHAPES = 8

# The largest clusters of the TOP500 list have about 10,000 nodes. Also a limit for the upper end of
# a range, so that `-N1-49999999` has one clear answer, whatever else it asks for.
MOST_NODES = 100_000

# Of the whole job. Its divisors, which are the possible numbers of nodes, take 316 steps to find.
MOST_GPUS = 100_000

# Slurm's gres types g0, g1, ... have at most three digits, and probes tell of 64 GPUs at most.
MOST_GPUS_PER_NODE = 1_000

# Slurm counts a node's CPUs in 16 bits.
MOST_CPUS_PER_NODE = (1 << 16) - 1

# 1 PiB; the engine adds memory up in 64-bit integers.
MOST_MEMORY_PER_NODE_BYTES = 1 << 50

# Of --constraint; the engine compares each of them with each node.
MOST_FEATURES = 64

# The engine is told the reason for which a job is left, and the journal and the log keep it; what a
# user wrote is a part of it.
LONGEST_REASON = 400
