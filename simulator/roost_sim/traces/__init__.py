"""Traces: the jobs that a simulation replays, from files or a generator.

Lives here: one module a format, and how a trace becomes jobs that the engine can place.
Does not belong here: clusters, and how fast jobs run.
"""
