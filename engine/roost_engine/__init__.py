"""The decision engine: `Engine.step(event) -> actions`, the same in every program that decides.

Lives here: everything that decides, pure and deterministic, on the standard library and numpy.
Does not belong here: I/O, clocks, logs, randomness, file formats, the text of Slurm.
"""
