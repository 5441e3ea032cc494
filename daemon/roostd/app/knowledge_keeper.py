"""Saves what the policies have learned across restarts: timers, budgets, cool-downs."""

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
# Of the decision loop's time, for encoding memos; one of ten thousand job classes takes 0.5 s.
_MOST_FRAC = 0.001


class KnowledgeKeeper:
    """Writes the policies' knowledge into the journal as a memo, at intervals and on request.

    Args:
        before: what earlier daemons learned; None: that could not be read.
        state: has the engine whose policies learn.
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
        """Begin with the journal's memo; with no knowledge where it cannot be read."""
        try:
            memo = None if journal is None else journal.memo()
        except JournalError as error:
            _log.warning("knowledge_lost", error=str(error))
            return cls(None, state, recorder)
        return cls(None if journal is None else _read(memo), state, recorder)

    async def read_late(self) -> None:
        """Read the memo that could not be read at the start, for a new run to begin with.

        What was learned since the start is dropped: a memo of it would overwrite the older one,
        which holds more.
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
        """Return the policies' present knowledge."""
        if self._is_late:
            self._is_late = False
            return self._known
        self._known = knowledge_of(self._state.engine.policies, self._known)
        return self._known

    def write(self) -> int:
        """Write the present knowledge. Returns a ticket for Recorder.wait_durable."""
        began_s = time.perf_counter()
        memo = Memo(encode(self.up_to_now()))
        took_s = time.perf_counter() - began_s
        self._due_s = self._state.clock.now_s() + max(_EVERY_S, took_s / _MOST_FRAC)
        return self._recorder.write_memo(memo)

    def write_if_due(self) -> None:
        """Write the present knowledge if the interval has passed or a job was stopped since."""
        is_due = self._state.clock.now_s() >= self._due_s or self._has_stopped_job()
        if is_due and self.up_to_now() != Knowledge():
            self.write()

    def _has_stopped_job(self) -> bool:
        """Whether a preemption budget was spent since: a restart must not restore it."""
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
