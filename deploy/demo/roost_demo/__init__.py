"""A whole Roost on one machine: throw-away Slurm, fake GPUs, probes and roostd, all real code."""
