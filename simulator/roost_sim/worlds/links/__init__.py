"""Links inside a node: their bandwidths, and how NCCL and the jobs of a node share them.

Not here: how much of its time a job communicates (speed).
"""
