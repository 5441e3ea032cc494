"""The JSON that `roostctl` prints: one versioned document a command.

Lives here: answers of the daemon as plain JSON values.
Does not belong here: tables for people.
"""
