"""Keeps Python's garbage collector from scanning what lives as long as an engine does.

A scan of 20,000 jobs and their records takes a quarter of a second, in which the event loop does
nothing else. So the collector rests while an engine is being given the cluster's jobs; what is
there afterwards is taken out of its scans ("frozen"). What is frozen is freed by its last reference
alone, not as part of a cycle, so all is put back when the next engine replaces the one in service.
"""

import gc
import time
from typing import Any, Self

POLLS = 5  # upkeeps in which an engine is being given the jobs
LONG_S = 0.02


class Collector:
    """Rests, freezes and unfreezes; a context manager, asked once in an upkeep."""

    def __init__(self) -> None:
        self._polls_left = 0
        self._began_s = 0.0

    def __enter__(self) -> Self:
        """Take charge of the collector, before the first engine."""
        gc.callbacks.append(self._note)
        self.begin_engine()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the collector as it was found."""
        gc.callbacks.remove(self._note)
        gc.unfreeze()
        gc.enable()

    def begin_engine(self) -> None:
        """Rest until an engine has been given the jobs; the one before it can be freed then."""
        gc.disable()
        gc.unfreeze()
        self._polls_left = POLLS

    def poll(self) -> None:
        """Freeze what is there, once, POLLS upkeeps after an engine began."""
        if not self._polls_left:
            return
        self._polls_left -= 1
        if not self._polls_left:
            gc.collect()
            gc.freeze()
            gc.enable()

    def _note(self, phase: str, info: dict[str, Any]) -> None:
        """Freeze what a long scan has found to be in use: the next one would find the same."""
        if info["generation"] < 2:
            return
        if phase == "start":
            self._began_s = time.thread_time()
        elif not self._polls_left and time.thread_time() - self._began_s > LONG_S:
            gc.freeze()
