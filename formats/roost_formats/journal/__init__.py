"""The journal: the engine's events and actions, in SQLite.

Lives here: the codec, the writer and the reader.
Does not belong here: when the daemon writes, and how a replay uses the journal.
"""
