"""The daemon: feeds the engine from Slurm and the probes, and carries out its actions.

Lives here: one folder for each outside thing, and `app`, which puts them together.
Does not belong here: decisions (roost_engine), formats of other programs (roost_formats).
"""
