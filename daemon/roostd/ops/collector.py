"""Keeps Python's garbage collector from scanning what lives as long as an engine does.

A scan of 20,000 jobs and their records takes a quarter of a second, in which the event loop does
nothing else. So what is there after a start or a reload is taken out of the scans ("frozen") and
put back before the next engine replaces the one in service: what is frozen is never freed.
"""

import gc

POLLS = 5  # a fresh engine is given the cluster's jobs in the meantime


class Collector:
    """Freezes and unfreezes; asked once in an upkeep."""

    def __init__(self) -> None:
        self._polls_left = POLLS

    def loosen(self) -> None:
        """Let the collector free the engine that is about to be replaced."""
        gc.unfreeze()
        self._polls_left = POLLS

    def poll(self) -> None:
        """Freeze what is there, once, POLLS upkeeps after a start or a replacement."""
        if not self._polls_left:
            return
        self._polls_left -= 1
        if not self._polls_left:
            gc.collect()
            gc.freeze()
