"""The daemon's tasks: the decision loop, the applier, the recorder, starts, reloads and stops.

Lives here: what runs, in which order, and the state that the tasks share.
Does not belong here: how Slurm, gRPC or a file is spoken to.
"""
