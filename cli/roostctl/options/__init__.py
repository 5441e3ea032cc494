"""Options that several commands share: the daemon, --json, --watch, --admin, filters of jobs.

Also what completes them at the Tab key.
Not here: the options of one command.
"""
