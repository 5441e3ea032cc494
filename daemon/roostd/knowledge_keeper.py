"""Keeps what the policies have learned over restarts: timers, budgets, cool-downs."""

import structlog

from roostd.adapters.codec import decode, encode
from roostd.adapters.journal import Journal, Memo
from roostd.core.errors import JournalError
from roostd.core.plugins import Knowledge, knowledge_of
from roostd.recorder import Recorder
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

_EVERY_S = 60.0


class KnowledgeKeeper:
    """Writes the policies' knowledge into the journal, now and then and when asked.

    Args:
        before: what earlier daemons learned.
        state: has the engine whose policies learn now.
        recorder: the journal.
    """

    def __init__(self, before: Knowledge, state: DaemonState, recorder: Recorder) -> None:
        self._known, self._state, self._recorder = before, state, recorder
        self._due_s = state.clock.now_s() + _EVERY_S

    @classmethod
    def resume(cls, journal: Journal, state: DaemonState, recorder: Recorder) -> "KnowledgeKeeper":
        """Begin with what the journal says; with nothing where it cannot be read."""
        try:
            memo = journal.memo()
            before = Knowledge() if memo is None else decode(memo, Knowledge)
        except JournalError as error:
            _log.warning("knowledge_lost", error=str(error))
            before = Knowledge()
        return cls(before, state, recorder)

    def up_to_now(self) -> Knowledge:
        """What is known by now."""
        self._known = knowledge_of(self._state.engine.policies, self._known)
        return self._known

    def keep(self) -> int:
        """Write it down. Returns a ticket for Recorder.wait_durable."""
        self._due_s = self._state.clock.now_s() + _EVERY_S
        return self._recorder.keep(Memo(encode(self.up_to_now())))

    def keep_if_due(self) -> None:
        """Write it down when that was a while ago and there is something to write."""
        if self._state.clock.now_s() >= self._due_s and self.up_to_now() != Knowledge():
            self.keep()
