"""Now, or wait for a better tier: the gates and their timers.

Lives here: gate policies and what they learn from waits.
Does not belong here: predictions of speed and run time (prediction), which other rooms need too.
"""
