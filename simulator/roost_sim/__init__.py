"""The simulator: replays traces through the engine on measured clusters, and compares policies.

Lives here: traces, clusters, worlds, published policies, runs, sweeps, replays and their commands.
Does not belong here: Roost's own decisions (roost_engine), and anything of the daemon.
"""
