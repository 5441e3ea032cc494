"""The daemon's access to Slurm: its commands, their output, and the events between two polls.

Lives here: the port, parsing, pins and leases, and the watch of the spool.
Does not belong here: formats that the hooks on nodes need too (roost_slurm).
"""
