"""`roost-slurm migrate`: GPU types by index, node by node, while jobs run.

The decision which node can move is pure; the command asks Slurm and writes files.
Not here: a first installation.
"""
