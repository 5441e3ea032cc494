"""Exit codes of `roost-sim` other than 0."""

EXIT_NO = 1
"""Done, and the answer is no: an action was not reproduced, a run of a sweep failed."""

EXIT_REFUSED = 2
"""A file, a name or an option is wrong; click's own code for wrong usage."""

EXIT_INTERRUPTED = 130
"""Ctrl-C, as shells report SIGINT."""
