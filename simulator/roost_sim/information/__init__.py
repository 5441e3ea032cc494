"""What policies know: run times, predictions, progress and speeds.

Lives here: the border between a world and the policies that act in it.
Does not belong here: the truth about a run (runs, worlds).
"""
