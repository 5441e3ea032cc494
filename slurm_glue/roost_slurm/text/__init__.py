"""Slurm's text as pure functions: command lines, what its commands print, how it writes resources.

Also what differs between its releases.
Not here: running a command, reading a clock, writing a file.
"""
