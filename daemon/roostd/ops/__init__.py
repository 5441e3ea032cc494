"""What the daemon needs of the operating system: logs, metrics, heartbeat, folders, audit, clock.

Lives here: one outside thing in each module, none of which knows of the others.
Does not belong here: the order in which the daemon uses them (app).
"""
