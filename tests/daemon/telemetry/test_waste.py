"""Sums by day and user, the file of sums, and halves of linked pairs."""

import pytest

from roost_sim.clusters.link_shapes import SHAPES
from roostd.ops.state_file import DAMAGED
from roostd.telemetry.waste import (
    KEPT_DAYS,
    WasteTally,
    day_of,
    half_free_count,
    linked_partners,
    read_tally,
    split_count,
)

DAY_S = 86_400.0
NOON_S = 1_763_900_000.0  # 2025-11-23 12:13:20 UTC


def test_sums_are_by_day_and_user_with_the_newest_day_and_the_most_idle_user_first() -> None:
    tally = WasteTally()
    tally.add(NOON_S, 1001, "held", 60.0)
    tally.add(NOON_S, 1001, "held", 30.0)
    tally.add(NOON_S, 1002, "idle", 5.0)
    tally.add(NOON_S, None, "unreachable", 7.0)
    tally.add(NOON_S + DAY_S, 1001, "split", 2.0)
    tally.add(NOON_S, 1003, "held", 0.0)
    rows = list(tally.rows())
    assert [(day, user) for day, user, _ in rows] == [
        ("2025-11-24", 1001),
        ("2025-11-23", 1002),
        ("2025-11-23", None),
        ("2025-11-23", 1001),
    ]
    assert rows[3][2].held == 90.0
    assert rows[2][2].unreachable == 7.0
    assert [day for day, _, _ in tally.rows(day_count=1)] == ["2025-11-24"]


def test_old_days_are_forgotten() -> None:
    tally = WasteTally()
    tally.add(NOON_S, 1, "held", 1.0)
    tally.add(NOON_S + (KEPT_DAYS - 1) * DAY_S, 1, "held", 1.0)
    assert len(list(tally.rows())) == 2
    tally.add(NOON_S + KEPT_DAYS * DAY_S, 1, "held", 1.0)
    assert [day for day, _, _ in tally.rows()][-1] > day_of(NOON_S)


def test_a_stored_tally_is_read_again() -> None:
    tally = WasteTally(began_epoch_s=NOON_S)
    tally.add(NOON_S, 1001, "idle", 0.1)
    tally.add(NOON_S, None, "half_free", 3.0)
    again = read_tally(tally.text())
    assert list(again.rows()) == list(tally.rows())
    assert again.began_epoch_s == NOON_S
    assert read_tally(WasteTally().text()).began_epoch_s is None


def test_a_file_of_a_version_that_did_not_count_neighbours_is_read() -> None:
    tally = WasteTally(began_epoch_s=NOON_S)
    tally.add(NOON_S, 1001, "idle", 0.5)
    text = tally.text()
    assert ', "neighbours": 0.0' in text
    again = read_tally(text.replace(', "neighbours": 0.0', ""))
    assert list(again.rows()) == list(tally.rows())


EMPTY = '{"held": 0, "idle": 0, "unknown": 0, "split": 0, "unreachable": 0, "half_free": 0}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": "other/1"}',
        '{"schema": "roost.waste-file/1", "began_epoch_s": 0, "days": {"monday": {}}}',
        '{"schema": "roost.waste-file/1", "began_epoch_s": 0, "days": {"2025-11-23": {"x": {}}}}',
        '{"schema": "roost.waste-file/1", "began_epoch_s": 0, "days": {"2025-11-23": {"1": {}}}}',
        WasteTally().text().replace("{}", '{"2025-11-23": {"1": {"held": -1, "idle": 0, "unknown":'
        ' 0, "split": 0, "unreachable": 0, "half_free": 0}}}'),
        "[" * 100_000,
        '{"schema": "roost.waste-file/1", "began_epoch_s": NaN, "days": {}}',
        '{"schema": "roost.waste-file/1", "began_epoch_s": 1e999, "days": {}}',
        '{"schema": "roost.waste-file/1", "began_epoch_s": 0, "days": {"20251123": {}}}',
        '{"schema": "roost.waste-file/1", "began_epoch_s": 0, "days": {"2025-11-23": {"-7": '
        + EMPTY + '}}}',
        '{"schema": "roost.waste-file/1", "began_epoch_s": 0, "days": {"2025-11-23": '
        '{"4294967296": ' + EMPTY + '}}}',
        '{"schema": "roost.waste-file/1", "began_epoch_s": 0, "days": {"2025-11-23": {"1": '
        + EMPTY.replace("0", "1e308", 1) + '}}}',
    ],
)  # fmt: skip
def test_another_file_is_refused(text: str) -> None:
    with pytest.raises(DAMAGED):
        read_tally(text)


def test_only_bridged_gpus_have_partners() -> None:
    assert linked_partners(SHAPES["bridges4"]) == (1, 0, 3, 2)
    assert set(linked_partners(SHAPES["cube8"])) == {None}
    assert set(linked_partners(SHAPES["a100x8"])) == {None}
    assert set(linked_partners(SHAPES["pcie8"])) == {None}


@pytest.mark.parametrize(
    ("gpus", "split"),
    [
        ((0,), 0),  # a job of one splits a pair in any case
        ((0, 1), 0),
        ((0, 2), 2),
        ((0, 1, 2), 0),  # so does one of three
        ((0, 2, 4), 2),
        ((0, 1, 2, 3), 0),
        ((0, 2, 4, 6), 4),
    ],
)
def test_what_a_job_splits_without_need(gpus: tuple[int, ...], split: int) -> None:
    assert split_count(gpus, linked_partners(SHAPES["bridges8"])) == split


def test_gpus_without_a_partner_split_nothing() -> None:
    assert split_count((0, 3, 5), linked_partners(SHAPES["cube8"])) == 0


def test_free_halves() -> None:
    partners = linked_partners(SHAPES["bridges8"])
    assert half_free_count((0, 2, 3), partners) == 1
    assert half_free_count((), partners) == 0
