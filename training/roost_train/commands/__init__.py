"""The longer commands of `roost-train`, one module each, and the options of the short ones.

Not here: what they run.
"""
