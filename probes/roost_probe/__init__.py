"""The node probe: reads a node's GPUs and NICs and streams their topology and load to roostd.

Lives here: the agent, the driver in its own process, sysfs, and the socket for Slurm's hooks.
Does not belong here: anything that decides, and anything that needs numpy or Slurm.
"""
