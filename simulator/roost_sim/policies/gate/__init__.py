"""Gates as simulations build them, and Slurm's own wait for one switch.

Lives here: what differs from the engine's gates.
Does not belong here: the engine's gates themselves (roost_engine.gate).
"""
