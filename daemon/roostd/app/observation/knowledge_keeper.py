"""Saves what the policies have learned across restarts: timers, budgets, run times, speeds.

Once a minute the journal gets a memo of what has changed: the predictors' tables may hold tens of
thousands of entries, and a minute changes those of the jobs that began, ended or grew older in it.
All entries are written only where the journal may not have them: after a fault of the disk, and in
the place of a memo of an earlier version, which is one record.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

import structlog

from roost_engine.domain.errors import JournalError
from roost_engine.plugins.plugins import Knowledge, knowledge_of, knowledge_without_tables
from roost_engine.prediction.predictors import Predictors
from roost_engine.preemption.network_preemption import PreemptionState
from roost_engine.sharing.separation_budget import SeparationState
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import Journal
from roost_formats.journal.learned_tables import decode_tables, encode_entry
from roost_formats.journal.records import Memo, TableKey
from roostd.app.decision.recorder import Recorder
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

_EVERY_S = 60.0
# Of the decision loop's time, for encoding memos: 0.3 s a minute, which a thousand ends take.
_MOST_FRAC = 0.005


class KnowledgeKeeper:
    """Writes the policies' knowledge into the journal as a memo, at intervals and on request.

    Args:
        before: what earlier daemons learned, as the journal has it; None: that could not be read.
        state: has the engine whose policies learn.
        recorder: the journal.
    """

    def __init__(self, before: Knowledge | None, state: DaemonState, recorder: Recorder) -> None:
        self._known, self._state, self._recorder = before or Knowledge(), state, recorder
        self._is_unread, self._is_late = before is None, False
        self._changed: dict[TableKey, bytes | None] = {}  # entries that the journal lacks
        self._turn, self._tears = 0, recorder.tear_count
        self._is_in_step = False  # whether the journal has all other entries
        self._due_s = state.clock.now_s() + _EVERY_S

    @classmethod
    def resume(
        cls, journal: Journal | None, state: DaemonState, recorder: Recorder
    ) -> "KnowledgeKeeper":
        """Begin with the journal's memo; with no knowledge where it cannot be read."""
        keeper = cls(None, state, recorder)
        if journal is not None:
            try:
                keeper._take_over(journal.memo(), journal.memo_entries())
            except JournalError as error:
                _log.warning("knowledge_lost", error=str(error))
        return keeper

    async def read_late(self) -> None:
        """Read the memo that could not be read at the start, for a new run to begin with.

        What was learned since the start is dropped: a memo of it would overwrite the older one,
        which holds more.
        """
        if not self._is_unread:
            return
        try:
            memo, entries = await self._recorder.memo(), await self._recorder.memo_entries()
        except JournalError as error:
            _log.warning("knowledge_lost", error=str(error))
            return
        self._take_over(memo, entries)
        self._is_late = self._known != Knowledge()

    def _take_over(self, memo: bytes | None, entries: Mapping[TableKey, bytes]) -> None:
        """Replace what is known by what the journal says; by nothing where that is damaged."""
        self._is_unread = False
        self._known, self._turn, self._is_in_step = Knowledge(), 0, False
        if memo is None:
            return
        try:
            self._known = known = decode(memo, Knowledge)
            if entries and known.predictors is not None:
                tables, self._turn = decode_tables(entries)
                stretches = known.predictors.speed.stretches
                tables = replace(
                    tables,
                    speed=replace(tables.speed, stretches=stretches),
                    users=known.predictors.users,
                    skill=replace(known.predictors.skill, expected=tables.skill.expected),
                )
                self._known, self._is_in_step = replace(known, predictors=tables), True
        except JournalError as error:
            _log.warning("knowledge_lost", error=str(error))

    def up_to_now(self) -> Knowledge:
        """Return the policies' present knowledge."""
        if self._is_late:
            self._is_late = False
            self._forget_changes()
            return self._known
        self._gather()
        self._known = knowledge_of(self._state.engine.policies, self._known)
        return self._known

    def write(self) -> int:
        """Write the present knowledge. Returns a ticket for Recorder.wait_durable."""
        began_s = time.perf_counter()
        memo = self._memo()
        took_s = time.perf_counter() - began_s
        # A memo of all entries comes once: the next one holds little again.
        pause_s = 0.0 if memo.is_whole else took_s / _MOST_FRAC
        self._due_s = self._state.clock.now_s() + max(_EVERY_S, pause_s)
        return self._recorder.write_memo(memo)

    def _memo(self) -> Memo:
        """Return what the journal lacks."""
        if self._is_late:
            self._forget_changes()
            return self._whole(self._known, None)
        self._gather()
        policies = self._state.engine.policies
        if self._tears != self._recorder.tear_count or not self._recorder.takes_records:
            self._tears, self._is_in_step = self._recorder.tear_count, False
        known, changed = knowledge_without_tables(policies, self._known), self._changed
        if not self._is_in_step:
            return self._whole(known, policies.predictors)
        self._known = replace(known, predictors=self._known.predictors)
        self._changed = {}
        return Memo(encode(known), changed)

    def _whole(self, known: Knowledge, predictors: Predictors | None) -> Memo:
        """Return a memo with all entries, in the place of those that the journal has.

        Args:
            known: what is in no table.
            predictors: those of the engine; None: the tables are those known from before.
        """
        before = self._known.predictors
        self._known, self._changed, self._turn = replace(known, predictors=before), {}, 0
        self._is_in_step = self._recorder.takes_records
        if predictors is None:
            if before is None:
                return Memo(encode(known), {}, is_whole=True)
            predictors = Predictors()
            predictors.restore(before)
        for name, table in predictors.tables().items():
            self._encode(name, table, tuple(table))
        entries, self._changed = self._changed, {}
        others = replace(known, predictors=predictors.state_without_tables())
        return Memo(encode(others), entries, is_whole=True)

    def _gather(self) -> None:
        """Encode the entries that have changed since this was last called."""
        predictors = self._state.engine.policies.predictors
        for name, table in ({} if predictors is None else predictors.tables()).items():
            noted = table.take_notes()
            if noted is None:
                self._is_in_step = False
            else:
                self._encode(name, table, noted)

    def _encode(self, name: str, table: Mapping[str, object], keys: Iterable[str]) -> None:
        for key in keys:
            self._turn += 1
            value = table.get(key)
            record = None if value is None else encode_entry(name, value, self._turn)
            self._changed[name, key] = record

    def _forget_changes(self) -> None:
        """Drop what the present engine has learned."""
        self._gather()
        self._changed = {}

    def write_if_due(self) -> None:
        """Write the present knowledge if the interval has passed or a job was stopped since."""
        is_due = self._state.clock.now_s() >= self._due_s or self._has_stopped_job()
        if is_due and self._knows_something():
            self.write()

    def _knows_something(self) -> bool:
        policies = self._state.engine.policies
        return knowledge_without_tables(policies, self._known) != Knowledge()

    def _has_stopped_job(self) -> bool:
        """Whether a budget of stops was spent since: a restart must not restore it."""
        learned, known = self._state.engine.policies.learned, self._known
        pairs = (
            (learned.preemption, known.preemption or PreemptionState()),
            (learned.separation, known.separation or SeparationState()),
        )
        return any(
            not set(budget.state().asked) <= set(before.asked)
            for budget, before in pairs
            if budget is not None
        )
