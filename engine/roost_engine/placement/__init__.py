"""Where a job could go now: eligible nodes, candidate placements, gangs, reservations.

Lives here: the search for placements, and why the other nodes were ruled out.
Does not belong here: which candidate wins (scoring), and whether the job should wait (gate).
"""
