"""The longer commands of `roost-train`, one module each; the short ones are in `cli`.

Not here: what they run.
"""
