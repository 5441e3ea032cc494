import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn (the train extra)")

from tests.training.interference_tables import write_tables

from roost_train.interference.pairs import Split, read_pairs
from roost_train.interference.training import (
    BOTH,
    SplitFigures,
    as_table,
    not_met,
    write_interference,
)


def test_the_same_pairs_give_the_same_file(tmp_path: Path) -> None:
    pairs = read_pairs(write_tables(tmp_path / "data"))
    one, two = (write_interference(pairs, ROWS, tmp_path / name, "again") for name in "ab")
    assert one.read_bytes() == two.read_bytes()


def row(predictor: str, mae: float, rank: float, inside: float | None = None) -> list[SplitFigures]:
    return [
        SplitFigures(
            split=split.value,
            predictor=predictor,
            mae=mae,
            rank=rank,
            inside_frac=inside,
            case_count=9,
        )
        for split in Split
    ]


NAMES = ("constant mean", "nearest neighbour", "LIF-linear", "gradient-boosted trees")
ROWS = [each for name in NAMES for each in row(name, 0.1, 0.5)] + row(BOTH, 0.09, 0.6, 0.9)


TYPES = (("a100", 40), ("k80", 90), ("p100", 90), ("t4", 2))  # too few t4 to say anything


def test_what_is_not_met_is_said() -> None:
    assert not_met(ROWS) == []
    worse = [each for each in ROWS if each.predictor != BOTH] + row(BOTH, 0.1, 0.4, 0.99)
    said = not_met(worse)
    assert "unseen GPU type: the error is not below that of LIF-linear" in said
    assert "random pairs: the rank correlation is not above that of constant mean" in said
    assert "unseen model family: 99.0 % are inside the 90 % interval" in said


def test_intervals_are_judged_on_each_gpu_type() -> None:
    by_type = [
        replace(each, inside_by_part=(0.71, 0.9, 0.99, 0.5), parts=TYPES)
        if each.predictor == BOTH
        else each
        for each in ROWS
    ]
    assert not_met(by_type) == [
        "unseen GPU type: 71.0 % of a100 are inside the 90 % interval",
        "unseen GPU type: 99.0 % of p100 are inside the 90 % interval",
    ]
    assert "90.0 % (a100 71.0, k80 90.0, p100 99.0, t4 50.0)" in as_table(by_type)


def test_the_table_has_a_line_for_each_row() -> None:
    assert as_table(ROWS).count("\n") == len(ROWS) + 1
