"""Writes the entries of the predictors' tables as bytes, each for itself, and reads them.

A memo of all that was learned can hold tens of thousands of entries, of which a minute changes a
few hundred. Each record begins with a turn: entries are read back in the order of their turns, the
one that changed longest ago first, because that is the order in which full tables drop them.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from roost_engine.domain.errors import JournalError
from roost_engine.domain.model import JobId
from roost_engine.prediction.predictors import PredictorsState
from roost_engine.prediction.run_time import history, prediction_skill
from roost_engine.prediction.run_time.history_kinds import KindSums, WatchedRun
from roost_engine.prediction.run_time.history_state import HistoryState
from roost_engine.prediction.run_time.prediction_skill import SkillState
from roost_engine.prediction.run_time.run_times import BAND_COUNT
from roost_engine.prediction.speed import speed_predictor
from roost_engine.prediction.speed.speed_predictor import SeenRuns, SpeedState
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.records import TableKey

_TURN = struct.Struct("<q")
_KIND = struct.Struct(f"<d{2 * BAND_COUNT}fB")  # the sums of a kind; last_s follows
_SECONDS = struct.Struct("<d")
_SEEN = struct.Struct("<8dq")  # SeenRuns
_TYPES: Mapping[str, type[object]] = {
    speed_predictor.SEEN_TABLE: SeenRuns,
    history.KINDS_TABLE: KindSums,
    history.RUNNING_TABLE: WatchedRun,
    prediction_skill.EXPECTED_TABLE: float,
}
_DROPPED = frozenset({"run-time", "run-time-running"})  # of a second predictor, before 0.2
_Table: TypeAlias = dict[str, Any]


def encode_entry(table: str, value: object, turn: int) -> bytes:
    """Return an entry as bytes.

    Args:
        table: its name.
        value: the entry.
        turn: a number that grows from entry to entry.
    """
    assert isinstance(value, _TYPES[table])
    return _TURN.pack(turn) + _encoded(value)


def _encoded(value: object) -> bytes:
    """Return the numbers of a kind of jobs in a fixed order: the codec takes ten times as long."""
    match value:
        case KindSums():
            numbers = np.concatenate((value.ended, value.entered)).tolist()
            fixed = _KIND.pack(value.at_s, *numbers, len(value.last_s))
            return fixed + struct.pack(f"<{len(value.last_s)}f", *value.last_s)
        case SeenRuns():
            busy = value.busy_sum, value.busy_count, value.run_count
            return _SEEN.pack(*value.speed_sum, *value.speed_count, *busy)
        case float():
            return _SECONDS.pack(value)
        case _:
            return encode(value)


def decode_tables(entries: Mapping[TableKey, bytes]) -> tuple[PredictorsState, int]:
    """Read the entries of all tables. Returns what they hold, and the last turn.

    Raises:
        JournalError: an entry cannot be read.
    """
    tables: dict[str, _Table] = {name: {} for name in _TYPES}
    last_turn = 0
    for turn, (table, name), record in _in_turn(entries):
        if table in _DROPPED:
            continue
        if table not in tables:
            raise JournalError(f"no table {table!r} of what was learned is known")
        tables[table][name] = _decoded(table, record)
        last_turn = turn
    state = PredictorsState(
        speed=SpeedState(tuple(tables[speed_predictor.SEEN_TABLE].items())),
        history=HistoryState.of(
            tables[history.KINDS_TABLE], _by_job(tables[history.RUNNING_TABLE])
        ),
        skill=SkillState(expected=tuple(_by_job(tables[prediction_skill.EXPECTED_TABLE]).items())),
    )
    return state, last_turn


def _by_job(table: _Table) -> dict[JobId, Any]:
    return {JobId(name): value for name, value in table.items()}


def _in_turn(entries: Mapping[TableKey, bytes]) -> Iterable[tuple[int, TableKey, bytes]]:
    found = list[tuple[int, TableKey, bytes]]()
    for key, record in entries.items():
        if len(record) < _TURN.size:
            raise JournalError(f"the entry {key[1]!r} of table {key[0]!r} was cut short")
        found.append((_TURN.unpack_from(record)[0], key, record[_TURN.size :]))
    return sorted(found)


def _decoded(table: str, record: bytes) -> object:
    try:
        match table:
            case history.KINDS_TABLE:
                return _kind(record)
            case speed_predictor.SEEN_TABLE:
                *sums, run_count = _finite(_SEEN.unpack(record))
                busy_sum, busy_count = sums[6:]
                return SeenRuns(sums[:3], sums[3:6], busy_sum, busy_count, int(run_count))
            case prediction_skill.EXPECTED_TABLE:
                return _finite(_SECONDS.unpack(record))[0]
            case _:
                return decode(record, _TYPES[table])
    except struct.error as error:
        raise JournalError(f"an entry of table {table!r} has {len(record)} bytes") from error


def _finite(numbers: Sequence[float]) -> Sequence[float]:
    if not all(map(isfinite, numbers)):
        raise JournalError("an entry of what was learned holds what is no number")
    return numbers


def _kind(record: bytes) -> KindSums:
    rest = len(record) - _KIND.size
    if rest < 0 or rest != 4 * record[_KIND.size - 1]:
        raise struct.error
    at_s, *numbers, count = _finite(_KIND.unpack_from(record))
    sums, last_s = np.array(numbers), struct.unpack_from(f"<{count}f", record, _KIND.size)
    return KindSums(at_s, last_s, sums[:BAND_COUNT], sums[BAND_COUNT:])
