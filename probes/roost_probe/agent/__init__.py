"""The running probe: its loop, its stream to roostd, and its socket for Slurm's hooks.

Also what it tells systemd.
Not here: what is read of the node.
"""
