"""Slurm as the daemon sees it: its commands, its text, and the events between two looks.

Lives here: the port, parsing, pins and leases, and the watch.
Does not belong here: formats that the hooks on nodes need too (roost_slurm).
"""
