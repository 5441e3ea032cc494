"""What an operator can set: flags, environment and roostd.yaml, checked as a whole.

Lives here: the settings, their defaults, and what a reload may change.
Does not belong here: what the settings change in the daemon.
"""
