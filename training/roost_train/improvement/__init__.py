"""Learning by playing: episodes, imitation, policy optimisation, expert iteration, evolution.

Knows slots and decisions, but no command, no configuration file and no release.
"""
