"""The engine's view in the words of operator.proto: jobs, nodes, decisions, expected starts.

No I/O but one question to the journal.
Not here: requests, and what a caller may see.
"""
