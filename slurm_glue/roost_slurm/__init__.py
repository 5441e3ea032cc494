"""What runs inside or beside Slurm, and Slurm's commands and text formats as pure functions.

Lives here: the hooks, what they read and write, parsers, and the generator of gres.conf.
Does not belong here: decisions, running Slurm's commands (roostd.slurm), any third-party import.
"""
