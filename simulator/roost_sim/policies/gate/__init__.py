"""Gates of simulations: the engine's delay gates with simulated profiles, and Slurm's switch wait.

Lives here: gates, and configurations of gates, that only simulations run.
Does not belong here: the engine's gates themselves (roost_engine.gate).
"""
