"""The operator's command line: questions to the daemon over gRPC.

Lives here: one module a command, and how answers look on a terminal and as JSON.
Does not belong here: anything that the daemon should decide or remember.
"""
