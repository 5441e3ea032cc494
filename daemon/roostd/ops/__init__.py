"""What operators and systemd see and need: logs, metrics, heartbeat, folders, audit, clock.

Lives here: one outside thing a module, each without knowledge of the others.
Does not belong here: the order in which the daemon uses them (app).
"""
