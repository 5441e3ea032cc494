"""`roost-slurm install` and `uninstall`: units, hooks and scripts put in place, and taken away.

Everything that it writes into a folder can be taken back.
Not here: the content of those files, which is in `site`.
"""
