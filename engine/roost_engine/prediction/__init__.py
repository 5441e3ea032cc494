"""What is expected of a job: its speed by tier, its remaining run time.

Lives here: predictors that learn from ended and running jobs; gates and preemption share them.
Does not belong here: what is decided by a prediction.
"""
