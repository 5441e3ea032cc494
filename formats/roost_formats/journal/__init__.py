"""The journal: what the engine was told and answered, in SQLite.

Lives here: the codec, the writer and the reader.
Does not belong here: when the daemon writes, and what a replay makes of it.
"""
