"""A whole Roost on one machine: throw-away Slurm, fake GPUs, probes and roostd, all real code.

Lives here: starting and stopping the parts, the demonstration's jobs, and its table.
Does not belong here: the fakes themselves (roost_probe.testing, roost_slurm.testing).
"""
