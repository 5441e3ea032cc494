"""Limits on what a job may ask for: beyond one of them Roost leaves the job to plain Slurm.

Users choose every number of a request, and Slurm accepts many that no cluster can meet
(`-N1-49999999`). roostd reads every waiting job at each poll, in the thread that also decides and
writes the heartbeat, so reading a job must take microseconds at most. Limits that only parsing
needs are in roost_slurm.text.limits.
"""

# A job gets a shape for each number of nodes that it may have; the engine tries each shape in each
# pass.
MOST_SHAPES = 8

# The largest clusters of the TOP500 list have about 10,000 nodes. It also limits the upper end of a
# range, so that `-N1-49999999` has the same answer whatever else the job asks for.
MOST_NODES = 100_000

# For the whole job. The possible numbers of nodes are its divisors, found in 316 steps at most.
MOST_GPUS = 100_000

# Slurm's gres types g0, g1, ... have at most three digits, and probes report 64 GPUs at most.
MOST_GPUS_PER_NODE = 1_000

# Slurm counts a node's CPUs in 16 bits.
MOST_CPUS_PER_NODE = (1 << 16) - 1

# 1 PiB; the engine sums memory in 64-bit integers.
MOST_MEMORY_PER_NODE_BYTES = 1 << 50

# Of --constraint; the engine compares each feature with each node.
MOST_FEATURES = 64

# Of the reason why a job is unmanaged. It may quote the user's text, and goes to the engine, the
# journal and the log.
LONGEST_REASON = 400
