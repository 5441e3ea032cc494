"""Entries of the predictors' tables: written each for itself, read back in order."""

from dataclasses import replace

import numpy as np
import pytest

from roost_engine.domain.errors import JournalError
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.speed.speed_predictor import SeenRuns
from roost_engine.testing.builders import job
from roost_formats.journal.learned_tables import decode_tables, encode_entry
from roost_formats.journal.records import TableKey


def learned() -> Predictors:
    """Predictors that know a few kinds of jobs, some of which still run."""
    known = Predictors()
    for number in range(6):
        spec = replace(job(f"{number}", user_id=number % 2), name=f"näme-{'abc'[number % 3]}")
        known.history.begin(spec, 0.0, 1.0, 100.0 * number)
        if number < 4:
            known.history.add(spec, 90.0 + number, 100.0 * number + 95.0)
        else:
            known.skill.expect(spec.job_id, 7.5 + number)
            known.skill.begin(spec.job_id)
    known.speed._seen["7 1 x"] = SeenRuns(run_count=3)
    return known


def encoded(known: Predictors) -> dict[TableKey, bytes]:
    found, turn = dict[TableKey, bytes](), 0
    for name, table in known.tables().items():
        for key, value in table.items():
            turn += 1
            found[name, key] = encode_entry(name, value, turn)
    return found


def test_what_is_read_is_what_was_written_in_the_same_order() -> None:
    known = learned()
    entries = encoded(known)
    backwards = dict(reversed(list(entries.items())))
    state, last_turn = decode_tables(backwards)
    wanted = known.state()
    assert state.history == wanted.history
    assert state.speed.seen == wanted.speed.seen
    assert state.skill == wanted.skill
    assert len(state.skill.expected) == 2
    assert [*state.history.kinds] == [*known.state().history.kinds]
    assert last_turn == len(entries)


def test_no_entries_are_nothing_learned() -> None:
    state, last_turn = decode_tables({})
    assert (state.history.kinds, state.speed.seen) == ((), ())
    assert last_turn == 0


def test_tables_of_the_second_predictor_that_there_was_are_passed_over() -> None:
    entries = encoded(learned())
    earlier = {("run-time", "all"): b"\0" * 8, ("run-time-running", "1"): b"\0" * 9}
    assert decode_tables({**earlier, **entries}) == decode_tables(entries)


@pytest.mark.parametrize(
    ("table", "record"),
    [
        ("history", b""),
        ("history", b"\0" * 8),
        ("history", b"\0" * 400),
        ("speed", b"\0" * 8 + b"{"),
        ("skill-expected", b"\0" * 8 + b"1"),
        ("skill-expected", b"\0" * 8 + b"\xff" * 8),
        ("gossip", b"\0" * 8),
    ],
)
def test_an_entry_that_is_damaged_or_of_an_unknown_table_is_refused(
    table: str, record: bytes
) -> None:
    with pytest.raises(JournalError):
        decode_tables({(table, "x"): record})


def test_a_kind_whose_sums_are_no_numbers_is_refused() -> None:
    (key, sums), *_ = learned().history.tables()["history"].items()
    sums.ended[3] = np.nan
    with pytest.raises(JournalError, match="no number"):
        decode_tables({("history", key): encode_entry("history", sums, 1)})
