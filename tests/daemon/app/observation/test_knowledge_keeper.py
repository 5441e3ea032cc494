"""What policies learned: read at the start, written when due, and never written over unread."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import structlog
from tests.daemon.app.parts import HEAD, Parts, no_disk, recording

from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, TimerPinned
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.delay import DelayGate
from roost_engine.plugins.plugins import Knowledge, Plugins, knowledge_of
from roost_engine.plugins.stacks import OrderKind
from roost_engine.prediction.predictors import Predictors, PredictorsState
from roost_engine.prediction.run_time.prediction_skill import SkillState
from roost_engine.prediction.speed.speed_predictor import SeenRuns
from roost_engine.prediction.user_service import UserServiceState
from roost_engine.preemption.network_preemption import PreemptionState
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.sharing.pairs import PairSpeed, SeparationConfig, SharingConfig
from roost_engine.testing.builders import delay_policies, job, share
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import Journal
from roost_formats.journal.learned_tables import encode_entry
from roost_formats.journal.records import Memo, TableKey
from roostd.app.decision.recorder import Recorder
from roostd.app.observation.knowledge_keeper import KnowledgeKeeper

KNOWN = Knowledge(preemption=PreemptionState(stops=((10.0, "main"),)))


def delaying() -> Parts:
    return Parts("n1", policies=delay_policies(DelayGate()))


def pin_timer(parts: Parts) -> None:
    """Have the gate learn something."""
    parts.state.engine.step(TimerPinned(at_s=100.0, timer="8/high", pinned_s=300.0))


async def kept(recorder: Recorder) -> Knowledge | None:
    """What is in the journal once all that is due is on disk."""
    await recorder.wait_durable(recorder._taken_count)
    memo = await recorder.memo()
    return None if memo is None else decode(memo, Knowledge)


def journal_with(folder: Path, memo: bytes) -> Journal:
    journal = Journal.open(folder)
    journal.write([HEAD, Memo(memo)])
    return journal


def test_corrections_of_pairs_are_known_after_a_restart(tmp_path: Path) -> None:
    plugins = Plugins(sharing=SharingConfig(pairs=(PairSpeed("a", "a", 0.95),)))
    policies = plugins.policies(HeuristicScore())
    assert policies.learned.sharing is not None
    slow = replace(job("1"), model="a")
    policies.learned.sharing.observe(slow, slow, 0.4)
    journal = journal_with(tmp_path, encode(knowledge_of(policies, Knowledge())))
    known = KnowledgeKeeper.resume(journal, Parts("n1").state, no_disk()).up_to_now()
    later = replace(plugins, knowledge=known).policies(HeuristicScore())
    assert later.sharing is not None
    assert later.sharing.judge(slow, slow) is None
    # A time without sharing loses nothing.
    assert knowledge_of(Plugins().policies(HeuristicScore()), known).sharing == known.sharing
    journal.close()


def test_what_was_learned_before_is_known_after_a_start(tmp_path: Path) -> None:
    journal = journal_with(tmp_path, encode(KNOWN))
    keeper = KnowledgeKeeper.resume(journal, Parts("n1").state, no_disk())
    assert keeper.up_to_now() == KNOWN
    journal.close()


@pytest.mark.parametrize("memo", [b"", b"\xff\0\0\0{}"])
def test_a_damaged_memo_is_logged_and_learning_begins_again(tmp_path: Path, memo: bytes) -> None:
    journal = journal_with(tmp_path, memo)
    with structlog.testing.capture_logs() as logs:
        keeper = KnowledgeKeeper.resume(journal, Parts("n1").state, no_disk())
    assert keeper.up_to_now() == Knowledge()
    assert [entry["event"] for entry in logs] == ["knowledge_lost"]
    journal.close()


async def test_a_stop_that_separates_a_pair_is_written_at_once(tmp_path: Path) -> None:
    plugins = Plugins(sharing=SharingConfig(separation=SeparationConfig()))
    parts = Parts("n1", policies=plugins.policies(HeuristicScore()))
    budget = parts.state.engine.policies.learned.separation
    assert budget is not None
    async with recording(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
        keeper.write_if_due()
        assert await kept(recorder) is None
        budget.spend(job("2"), JobId("1"), 5.0)
        keeper.write_if_due()
        known = await kept(recorder)
    assert known is not None
    assert known.separation == budget.state()


async def test_knowledge_is_written_once_a_minute_and_not_before(tmp_path: Path) -> None:
    parts = delaying()
    async with recording(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
        pin_timer(parts)
        parts.clock.at_s = 159.9
        keeper.write_if_due()
        assert await kept(recorder) is None

        parts.clock.at_s = 160.0
        keeper.write_if_due()

        known = await kept(recorder)
        assert known is not None
        assert known.gate is not None
        assert known == keeper.up_to_now()


async def test_policies_that_learned_nothing_write_nothing(tmp_path: Path) -> None:
    parts = Parts("n1")
    async with recording(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
        parts.clock.at_s = 1e6
        keeper.write_if_due()
        assert await kept(recorder) is None


async def test_a_ticket_tells_when_knowledge_is_on_disk(tmp_path: Path) -> None:
    parts = delaying()
    async with recording(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
        pin_timer(parts)
        await recorder.wait_durable(keeper.write())
        memo = await recorder.memo()
        assert memo is not None
        assert decode(memo, Knowledge) == keeper.up_to_now()


async def test_what_could_not_be_read_at_the_start_is_read_later_and_given_to_the_next_engine(
    tmp_path: Path,
) -> None:
    journal = journal_with(tmp_path, encode(KNOWN))
    journal.close()
    async with recording(tmp_path) as recorder:
        keeper = KnowledgeKeeper(None, Parts("n1").state, recorder)
        assert keeper.up_to_now() == Knowledge()

        await keeper.read_late()

        assert keeper.up_to_now() == KNOWN


async def test_what_was_read_at_the_start_is_not_read_again(tmp_path: Path) -> None:
    journal_with(tmp_path, encode(KNOWN)).close()
    async with recording(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), Parts("n1").state, recorder)
        await keeper.read_late()
        assert keeper.up_to_now() == Knowledge()


async def test_a_journal_that_still_cannot_be_read_is_tried_again(tmp_path: Path) -> None:
    class LateRecorder(Recorder):
        """Reads the memo at the second attempt."""

        attempts = 0

        async def memo(self) -> bytes | None:
            self.attempts += 1
            if self.attempts == 1:
                raise JournalError("no disk")
            return encode(KNOWN)

        async def memo_entries(self) -> dict[TableKey, bytes]:
            return {}

    keeper = KnowledgeKeeper(None, Parts("n1").state, LateRecorder(None, fault="no disk"))
    await keeper.read_late()
    assert keeper.up_to_now() == Knowledge()
    await keeper.read_late()
    assert keeper.up_to_now() == KNOWN


def learning() -> Parts:
    """A daemon whose policies learn run times."""
    return Parts("n1", policies=Plugins(order=OrderKind.LEARNED).policies(HeuristicScore()))


def predictors_of(parts: Parts) -> Predictors:
    found = parts.state.engine.policies.predictors
    assert found is not None
    return found


def teach(parts: Parts, *numbers: int, users: int = 40) -> None:
    """Jobs of these numbers began and ended; each has a name of its own."""
    known = predictors_of(parts)
    for number in numbers:
        spec = replace(job(f"{number}", user_id=number % users), name=letters(number))
        known.history.begin(spec, 0.0, 1.0, float(number))
        known.history.add(spec, 300.0, number + 300.0)
        known.speed._seen[letters(number)] = SeenRuns(run_count=1)


def letters(number: int) -> str:
    """A name without digits: those do not count."""
    return "".join(chr(97 + int(digit)) for digit in str(number))


class Watched(Recorder):
    """A recorder that keeps the memos which it is given."""

    def __init__(self, journal: Journal | None) -> None:
        super().__init__(journal)
        self.memos: list[Memo] = []

    def write_memo(self, memo: Memo) -> int:
        self.memos.append(memo)
        return super().write_memo(memo)


@asynccontextmanager
async def watched(folder: Path) -> AsyncIterator[Watched]:
    recorder = Watched(Journal.open(folder))
    recorder.begin_run(HEAD)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        recorder.close()
        await asyncio.wait_for(task, 60)


def written_bytes(memo: Memo) -> int:
    entries = ((key, record or b"") for key, record in memo.entries.items())
    return len(memo.knowledge) + sum(len("".join(key)) + len(record) for key, record in entries)


def after_a_restart(folder: Path) -> PredictorsState:
    """What a daemon that starts now would know."""
    journal = Journal.open(folder)
    known = KnowledgeKeeper.resume(journal, Parts("n1").state, no_disk()).up_to_now().predictors
    journal.close()
    assert known is not None
    return known


async def test_a_memo_holds_what_the_minute_changed_and_a_restart_knows_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A memo that takes long, as on a busy machine, would put the next one off.
    monkeypatch.setattr("roostd.app.observation.knowledge_keeper._MOST_FRAC", 1.0)
    parts = learning()
    async with watched(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
        for minute in range(5):
            teach(parts, *range(600 * minute, 600 * minute + (600 if minute < 3 else 5)))
            parts.clock.at_s = 160.0 + 60.0 * minute
            keeper.write_if_due()
        teach(parts, 99_999)  # the last minute is lost
        before = recorder.memos[-1]
        await recorder.wait_durable(recorder._taken_count)
    assert [memo.is_whole for memo in recorder.memos] == [True, False, False, False, False]
    sizes = [written_bytes(memo) for memo in recorder.memos]
    assert sizes[3] < sizes[2] / 10
    assert sizes[4] < 40_000
    assert before.entries

    known = after_a_restart(tmp_path)
    again = learning()
    teach(again, *range(1_800), *range(1_800, 1_805), *range(2_400, 2_405))
    wanted = predictors_of(again).state()
    assert known.history == wanted.history
    assert known.speed.seen == wanted.speed.seen


async def test_what_was_dropped_from_a_full_table_is_dropped_from_the_journal(
    tmp_path: Path,
) -> None:
    parts = learning()
    async with watched(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
        teach(parts, *range(200), users=1)
        keeper.write()
        teach(parts, *range(200, 700), users=1)  # more than 500 names of a user
        await recorder.wait_durable(keeper.write())
    assert None in recorder.memos[1].entries.values()
    assert after_a_restart(tmp_path).history == predictors_of(parts).history.state()


async def test_a_reload_begins_with_all_that_was_learned_and_the_journal_follows(
    tmp_path: Path,
) -> None:
    parts = learning()
    async with watched(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
        teach(parts, *range(50))
        keeper.write()
        teach(parts, *range(50, 60))  # in no memo yet
        plugins = Plugins(order=OrderKind.LEARNED, knowledge=keeper.up_to_now())
        parts.state.engine = Engine(EngineConfig(), plugins.policies(HeuristicScore()))
        teach(parts, *range(60, 65))
        await recorder.wait_durable(keeper.write())
    assert not recorder.memos[-1].is_whole
    assert after_a_restart(tmp_path).history == predictors_of(parts).history.state()
    assert len([name for table, name in recorder.memos[-1].entries if table == "speed"]) == 15


async def test_a_memo_of_an_earlier_version_is_read_and_replaced_by_entries(tmp_path: Path) -> None:
    parts = learning()
    teach(parts, *range(30))
    journal_with(tmp_path, encode(knowledge_of(parts.state.engine.policies, Knowledge()))).close()
    assert after_a_restart(tmp_path).history == predictors_of(parts).history.state()

    journal = Journal.open(tmp_path)
    recorder = Watched(journal)
    task = asyncio.create_task(recorder.run())
    keeper = KnowledgeKeeper.resume(journal, parts.state, recorder)
    await recorder.wait_durable(keeper.write())
    recorder.close()
    await task
    assert recorder.memos[0].is_whole
    assert after_a_restart(tmp_path).history == predictors_of(parts).history.state()


async def test_after_a_fault_of_the_disk_all_entries_are_written_again(tmp_path: Path) -> None:
    parts = learning()
    async with watched(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
        teach(parts, *range(20))
        await recorder.wait_durable(keeper.write())
        recorder._tear("no space left")
        teach(parts, *range(20, 25))
        keeper.write()  # the recorder drops it
        recorder.fault = ""
        recorder.begin_run(HEAD)
        await recorder.wait_durable(keeper.write())
        assert recorder.memos[-1].is_whole
        keeper.write()
        assert not recorder.memos[-1].is_whole
    assert after_a_restart(tmp_path).history == predictors_of(parts).history.state()


def test_damaged_entries_lose_the_tables_and_nothing_else(tmp_path: Path) -> None:
    journal = journal_with(tmp_path, encode(replace(KNOWN, predictors=PredictorsState())))
    journal.write([Memo(journal.memo() or b"", {("history", "all"): b"short"})])
    with structlog.testing.capture_logs() as logs:
        keeper = KnowledgeKeeper.resume(journal, Parts("n1").state, no_disk())
    assert keeper.up_to_now().preemption == KNOWN.preemption
    assert [entry["event"] for entry in logs] == ["knowledge_lost"]
    journal.close()


def test_what_users_have_had_is_kept_beside_the_tables(tmp_path: Path) -> None:
    users = UserServiceState(((7, 500.0, 10.0),))
    journal = journal_with(tmp_path, encode(Knowledge(predictors=PredictorsState(users=users))))
    seen = encode_entry("speed", SeenRuns(run_count=3), 1)
    journal.write([Memo(journal.memo() or b"", {("speed", "7 1 x"): seen})])
    journal.close()
    known = after_a_restart(tmp_path)
    assert (known.users, known.speed.seen) == (users, (("7 1 x", SeenRuns(run_count=3)),))


def test_how_far_predictions_are_trusted_is_kept_beside_the_tables(tmp_path: Path) -> None:
    skill = SkillState(np.array([[5.0, 9.0]], dtype=np.float32), 0.5)
    journal = journal_with(tmp_path, encode(Knowledge(predictors=PredictorsState(skill=skill))))
    seen = encode_entry("speed", SeenRuns(run_count=3), 1)
    journal.write([Memo(journal.memo() or b"", {("speed", "7 1 x"): seen})])
    journal.close()
    assert after_a_restart(tmp_path).skill == skill


@pytest.mark.parametrize("is_reload", [True, False])
async def test_a_run_that_a_restart_falls_into_counts_for_trust(
    tmp_path: Path, is_reload: bool
) -> None:
    parts, spec, gpus = learning(), job("1", gpus=8), (share("n1", *range(8)),)
    parts.state.engine.step(JobQueued(at_s=100.0, job=spec))
    parts.state.engine.step(JobStarted(at_s=101.0, job_id=spec.job_id, shares=gpus))
    ((_, expected_s),) = predictors_of(parts).state().skill.expected
    async with watched(tmp_path) as recorder:
        keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
        await recorder.wait_durable(keeper.write())
        known = keeper.up_to_now() if is_reload else None
    known = known or Knowledge(predictors=after_a_restart(tmp_path))
    policies = Plugins(order=OrderKind.LEARNED, knowledge=known).policies(HeuristicScore())
    later = Parts("n1", policies=policies)
    resumed = JobStarted(at_s=200.0, job_id=spec.job_id, shares=gpus, job=spec, since_s=101.0)
    later.state.engine.step(resumed)
    later.state.engine.step(JobEnded(at_s=501.0, job_id=spec.job_id))
    skill = predictors_of(later).state().skill
    assert skill.runs.tolist() == [[pytest.approx(expected_s), 400.0]]
    assert skill.expected == ()
