"""Slurm in memory, for tests and for the demonstration where Slurm cannot be installed.

Lives here: real implementations of the daemon's Protocols.
Does not belong here: fakes of the engine's policies (roost_engine.testing).
"""
