"""A throw-away Slurm cluster on this machine, for tests and the demonstration.

Lives here: starting real Slurm daemons, their configuration, and a fake agent for hooks.
Does not belong here: stand-ins for Slurm itself (roostd.testing).
"""
