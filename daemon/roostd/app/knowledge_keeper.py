"""Keeps what the policies have learned over restarts: timers, budgets, cool-downs."""

import time

import structlog

from roost_engine.domain.errors import JournalError
from roost_engine.plugins import Knowledge, knowledge_of
from roost_engine.preemption.network_preemption import PreemptionState
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import Journal, Memo
from roostd.app.recorder import Recorder
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

_EVERY_S = 60.0
_MOST_FRAC = 0.001  # of the time of the decision loop; ten thousand kinds of jobs cost 0.5 s


class KnowledgeKeeper:
    """Writes the policies' knowledge into the journal, now and then and when asked.

    Args:
        before: what earlier daemons learned; None: that could not be read.
        state: has the engine whose policies learn now.
        recorder: the journal.
    """

    def __init__(self, before: Knowledge | None, state: DaemonState, recorder: Recorder) -> None:
        self._known, self._state, self._recorder = before or Knowledge(), state, recorder
        self._is_unread, self._is_late = before is None, False
        self._due_s = state.clock.now_s() + _EVERY_S

    @classmethod
    def resume(
        cls, journal: Journal | None, state: DaemonState, recorder: Recorder
    ) -> "KnowledgeKeeper":
        """Begin with what the journal says; with nothing where it cannot be read."""
        try:
            memo = None if journal is None else journal.memo()
        except JournalError as error:
            _log.warning("knowledge_lost", error=str(error))
            return cls(None, state, recorder)
        return cls(None if journal is None else _read(memo), state, recorder)

    async def read_late(self) -> None:
        """Read what could not be read at the start, now that a new run may begin with it.

        What was learned in between is given up: a memo written over the older one would lose more.
        """
        if not self._is_unread:
            return
        try:
            self._known = _read(await self._recorder.memo())
        except JournalError as error:
            _log.warning("knowledge_lost", error=str(error))
            return
        self._is_unread, self._is_late = False, self._known != Knowledge()

    def up_to_now(self) -> Knowledge:
        """What is known by now."""
        if self._is_late:
            self._is_late = False
            return self._known
        self._known = knowledge_of(self._state.engine.policies, self._known)
        return self._known

    def keep(self) -> int:
        """Write it down. Returns a ticket for Recorder.wait_durable."""
        began_s = time.perf_counter()
        memo = Memo(encode(self.up_to_now()))
        took_s = time.perf_counter() - began_s
        self._due_s = self._state.clock.now_s() + max(_EVERY_S, took_s / _MOST_FRAC)
        return self._recorder.keep(memo)

    def keep_if_due(self) -> None:
        """Write it down when that was a while ago, or when a job was stopped since."""
        is_due = self._state.clock.now_s() >= self._due_s or self._has_stopped_one()
        if is_due and self.up_to_now() != Knowledge():
            self.keep()

    def _has_stopped_one(self) -> bool:
        """Whether a budget was drawn on: a restart must not give it back."""
        policy = self._state.engine.policies.learned.preemption
        if policy is None:
            return False
        before = self._known.preemption or PreemptionState()
        return not set(policy.state().asked) <= set(before.asked)


def _read(memo: bytes | None) -> Knowledge:
    if memo is None:
        return Knowledge()
    try:
        return decode(memo, Knowledge)
    except JournalError as error:
        _log.warning("knowledge_lost", error=str(error))
        return Knowledge()
