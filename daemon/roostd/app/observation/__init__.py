"""What running and ended jobs show, and what is kept of it: links, memory, speeds, waste.

Meters turn samples into the engine's terms; keepers save what policies learn across restarts.
Not here: what the engine makes of it.
"""
