"""shadow: two choices for a job, in the journal and back."""

from pathlib import Path

import pytest

from roost_engine.domain.model import JobId
from roost_engine.engine import EngineConfig
from roost_engine.testing.builders import share
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import Journal
from roost_formats.journal.reader import JournalReader
from roost_formats.journal.records import RunHead
from roost_formats.journal.shadow import Choice, ShadowChoice

HERE = Choice(at_s=10.0, shares=(share("a", 0, 1),), tier=0, expected_end_s=100.0)
THERE = Choice(at_s=9.0, shares=(share("b", 0, 1),), tier=0, expected_end_s=90.0)


def choice(shadow: Choice | None) -> ShadowChoice:
    return ShadowChoice(
        at_s=10.0,
        job_id=JobId("1"),
        slot="order",
        policy="order:las",
        active=HERE,
        shadow=shadow,
        reason="" if shadow else "waits",
    )


@pytest.mark.parametrize(
    ("shadow", "differs", "gain_s"),
    [(HERE, False, 0.0), (THERE, True, -10.0), (None, True, None)],
)
def test_choices_differ_by_their_gpus(
    shadow: Choice | None, differs: bool, gain_s: float | None
) -> None:
    assert choice(shadow).differs is differs
    assert choice(shadow).expected_gain_s == gain_s
    assert decode(encode(choice(shadow)), ShadowChoice) == choice(shadow)


def test_the_journal_keeps_choices_by_run(tmp_path: Path) -> None:
    head = RunHead(
        version="1", policy="", epoch_of_zero_s=0.0, began_s=0.0, config=encode(EngineConfig())
    )
    journal = Journal.open(tmp_path)
    journal.write([head, choice(None), head, choice(HERE), choice(THERE)])
    journal.close()
    reader = JournalReader(tmp_path)
    found = [list(reader.shadow_choices(run)) for run in reader.runs()]
    assert found == [[choice(None)], [choice(HERE), choice(THERE)]]
    reader.close()
    Journal.open(tmp_path).close()
