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
        [(array(1.0), array(1.0), array(1.5)), (array(0.0, 2.0), array(0.0, 2.25), array(0.0, 2.0))]
    )
    assert found == Readings(rank_count=3, worst_difference=0.5)


def test_without_a_question_nothing_is_compared() -> None:
    with pytest.raises(TrainError, match="no decision to compare"):
        compare([])


def test_nothing_is_written_where_the_readings_differ(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="differ by"):
        write_slot_model(
            tmp_path / "gate.onnx",
            b"",
            GATE,
            {},
            ({}, {}),
            {},
            readings=Readings(rank_count=1, worst_difference=2 * TOLERANCE),
            features_version=1,
            load=lambda path: path,
        )
    assert not list(tmp_path.iterdir())
