"""Gates and their timers: whether a job takes an offer now or waits for a closer tier.

Lives here: gate policies and what they learn from waits.
Does not belong here: predictions of speed and run time (prediction), which other packages use too.
"""
