"""The audit log: one JSON line for each change, in a chain of hashes.

Lives here: how a line is chained and how a chain is checked, for roostd and roostctl alike.
Does not belong here: which changes are recorded (roostd), and how findings are shown (roostctl).
"""
