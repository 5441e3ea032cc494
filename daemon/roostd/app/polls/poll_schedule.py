"""The schedule of the polls of Slurm: a few soon after a change, and one at an interval."""

import asyncio
import contextlib
import heapq
import time
from collections import deque
from typing import TypeAlias

_LOOKING_FRAC = 0.15  # of the time: crowds are looked at less often
_RETRY_S = 2.0  # while Slurm does not answer
_AFTER_SUBMIT_S = (0.01, 0.05, 0.15, 0.4, 1.0)
_BURST_COUNT = 10  # submissions within a second: from then on they share polls
_BURST_POLL_S = 0.5
_BURST_POLLS_S = (_BURST_POLL_S, 2 * _BURST_POLL_S)
_TRANSITION_S = 1.0  # between two looks at the nodes while one of them is about to be usable
Cause: TypeAlias = tuple[str, str]  # what a poll is to show: a kind, and which of these
NO_CAUSE: Cause = ("", "")


class PollSchedule:
    """Says when the next poll is due; the first one is due at once, with the nodes."""

    def __init__(self) -> None:
        # All on the monotonic clock.
        self._polls_due: list[tuple[float, Cause]] = []  # a heap
        self._nodes_due_s = self._nodes_read_s = 0.0
        self._not_before_s = 0.0  # of the next poll
        self._submitted_s: deque[float] = deque(maxlen=_BURST_COUNT)
        self._wake = asyncio.Event()

    def add(self, delays_s: tuple[float, ...], cause: Cause = NO_CAUSE) -> None:
        """Poll this long from now.

        Args:
            delays_s: one for each poll.
            cause: see drop.
        """
        now_s = time.monotonic()
        for delay_s in delays_s:
            heapq.heappush(self._polls_due, (now_s + delay_s, cause))
        self._wake.set()

    def awaits(self, cause: Cause) -> bool:
        """Whether polls of a cause are due."""
        return any(of == cause for _, of in self._polls_due)

    def drop(self, cause: Cause) -> None:
        """Forget the polls of a cause: it was seen."""
        self._polls_due = [poll for poll in self._polls_due if poll[1] != cause]
        heapq.heapify(self._polls_due)

    def add_submissions(self, count: int, cause: Cause = NO_CAUSE) -> None:
        """Poll soon after jobs were submitted; often for a few jobs, seldom in a burst of them.

        job_submit.lua writes its line before the job is in the queue; the delay depends on
        slurmctld's other work. Each poll takes a command's CPU time from the clients that submit.
        """
        now_s = time.monotonic()
        self._submitted_s.extend([now_s] * count)
        is_full = len(self._submitted_s) == _BURST_COUNT
        if not is_full or self._submitted_s[0] < now_s - 1.0:
            self.add(_AFTER_SUBMIT_S, cause)
        elif not any(
            due_s >= now_s + _BURST_POLL_S for due_s, of in self._polls_due if of == cause
        ):
            # A poll that is due sooner may come before the last of these jobs are in the queue.
            self.add((2 * _BURST_POLL_S,) if self._polls_due else _BURST_POLLS_S, cause)

    def add_urgent(self) -> None:
        """Poll now, though the last poll was expensive."""
        self._not_before_s = 0.0
        self.add((0.0,))

    def read_nodes(self) -> None:
        """Poll now, with the nodes."""
        self._nodes_due_s = 0.0
        self._wake.set()

    def retry(self) -> None:
        """Poll again, with the nodes, some time after a poll that failed."""
        self._nodes_due_s = time.monotonic() + _RETRY_S

    def note_nodes_read(self, interval_s: float) -> None:
        """Read the nodes again after an interval: they were read just now."""
        self._nodes_read_s = time.monotonic()
        self._nodes_due_s = self._nodes_read_s + interval_s

    def follow_transition(self) -> None:
        """Read the nodes again soon: one of them is about to be usable."""
        self._nodes_due_s = min(self._nodes_due_s, self._nodes_read_s + _TRANSITION_S)

    def pause_after(self, cost_s: float) -> None:
        """Put off the next poll so that polls cost a fraction of the time at most.

        Args:
            cost_s: what the poll that ends now cost, with Slurm's share where it counts.
        """
        self._not_before_s = time.monotonic() + cost_s / _LOOKING_FRAC

    def are_nodes_due(self) -> bool:
        """Return whether a poll that begins now reads the nodes."""
        return time.monotonic() >= self._nodes_due_s

    async def until_due(self) -> None:
        """Wait for the next scheduled poll; all polls that are overdue become one."""
        while True:
            now_s = time.monotonic()
            polls_due_s = [at_s for at_s, _ in self._polls_due[:1]]
            due_s = max(min([*polls_due_s, self._nodes_due_s]), self._not_before_s)
            if due_s <= now_s:
                break
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due_s - now_s):
                    await self._wake.wait()
            self._wake.clear()
        while self._polls_due and self._polls_due[0][0] <= now_s:
            heapq.heappop(self._polls_due)
