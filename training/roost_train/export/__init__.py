"""What every model file has in common: bytes, manifest, and a reading of it in plain numpy.

Not here: the graphs of single networks, and what a slot asks of its release.
"""
