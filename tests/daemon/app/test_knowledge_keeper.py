"""What policies learned: read at the start, written when due, and never written over unread."""

from pathlib import Path

import pytest
import structlog
from tests.daemon.app.parts import HEAD, Parts, no_disk, recording

from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import TimerPinned
from roost_engine.gate.delay import DelayGate
from roost_engine.plugins import Knowledge, delay_policies
from roost_engine.preemption.network_preemption import PreemptionState
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import Journal, Memo
from roostd.app.knowledge_keeper import KnowledgeKeeper
from roostd.app.recorder import Recorder

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


def test_what_was_learned_before_is_known_after_a_start(tmp_path: Path) -> None:
    journal = journal_with(tmp_path, encode(KNOWN))
    keeper = KnowledgeKeeper.resume(journal, Parts("n1").state, no_disk())
    assert keeper.up_to_now() == KNOWN
    journal.close()


@pytest.mark.parametrize("memo", [b"", b"\xff\0\0\0{}"])
def test_a_damaged_memo_is_logged_and_learning_begins_anew(tmp_path: Path, memo: bytes) -> None:
    journal = journal_with(tmp_path, memo)
    with structlog.testing.capture_logs() as logs:
        keeper = KnowledgeKeeper.resume(journal, Parts("n1").state, no_disk())
    assert keeper.up_to_now() == Knowledge()
    assert [entry["event"] for entry in logs] == ["knowledge_lost"]
    journal.close()


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

    keeper = KnowledgeKeeper(None, Parts("n1").state, LateRecorder(None, fault="no disk"))
    await keeper.read_late()
    assert keeper.up_to_now() == Knowledge()
    await keeper.read_late()
    assert keeper.up_to_now() == KNOWN
