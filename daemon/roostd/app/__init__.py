"""The daemon's tasks: the decision loop, the applier, the recorder, starts, reloads and stops.

Lives here: what runs, in which order, and the state that the tasks share.
Does not belong here: the protocols of Slurm and gRPC, and the formats of files.
"""
