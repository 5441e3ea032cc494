"""What the probe knows of its node: GPUs and NICs, how they are linked, and their load.

Not here: calls of the driver, and the way to roostd.
"""
