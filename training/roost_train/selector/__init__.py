"""The training of a slot from a trace: warm start, improvement, validation, release, report.

Not here: the algorithms, which are in `improvement`.
"""
