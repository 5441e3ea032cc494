"""The plug-ins of a pass: their Protocols, the slots that hold them, and the heuristic beside each.

Here: what every policy must answer, faults and fallbacks, the canary of two policies in one slot.
Not here: the policies themselves, which live in `queue`, `gate`, `scoring` and `preemption`.
"""
