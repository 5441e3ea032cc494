"""The job table: the state of every job, and what follows when it changes.

Here: changes of state, reports of waits, outcomes to learn from, lost placements, invariants.
Not here: the record of one job (`job_record`), and any decision.
"""
