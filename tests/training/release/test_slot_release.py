"""A model of a slot is written only where its three readings agree."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from pathlib import Path

import numpy as np
import pytest

from roost_formats.models.signature import GATE
from roost_train.errors import TrainError
from roost_train.release.slot_release import TOLERANCE, Readings, compare, write_slot_model

pytestmark = pytest.mark.torch


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, dtype=np.float32)


def test_the_worst_difference_is_that_of_any_two_to_any_question() -> None:
    found = compare(
        [(array(0.0), array(0.0), array(0.5)), (array(0.0, 2.0), array(0.0, 2.25), array(0.0, 2.0))]
    )
    assert found == Readings(rank_count=3, worst_difference=0.5)


def test_a_difference_counts_relative_to_an_answer_above_one() -> None:
    found = compare([(array(-40.0, 0.5), array(-40.0, 0.5), array(-32.0, 0.5))])
    assert found.worst_difference == pytest.approx(0.2)  # 8 of 40


def test_large_answers_that_differ_by_rounding_agree() -> None:
    step = float(np.spacing(np.float32(-40.0)))  # 4e-6
    found = compare([(array(-40.0), array(-40.0 + 3 * step), array(-40.0))])
    assert 0.0 < found.worst_difference <= TOLERANCE


def test_an_answer_that_is_no_number_agrees_with_nothing() -> None:
    found = compare([(array(1.0), array(np.nan), array(1.0))])
    assert np.isnan(found.worst_difference)


def test_without_a_question_nothing_is_compared() -> None:
    with pytest.raises(TrainError, match="no decision to compare"):
        compare([])


@pytest.mark.parametrize("difference", [2 * TOLERANCE, np.nan])
def test_nothing_is_written_where_the_readings_differ(tmp_path: Path, difference: float) -> None:
    with pytest.raises(TrainError, match="differ by"):
        write_slot_model(
            tmp_path / "gate.onnx",
            b"",
            GATE,
            {},
            ({}, {}),
            {},
            readings=Readings(rank_count=1, worst_difference=difference),
            features_version=1,
            load=lambda path: path,
        )
    assert not list(tmp_path.iterdir())
