import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from pathlib import Path

import numpy as np
import pytest
from tests.training.interference_tables import write_tables

from roost_engine.prediction.interference.interference_vector import COLUMN, MASK, fraction
from roost_train.errors import BadTable
from roost_train.interference.public import (
    GAVEL_ISOLATED,
    PublicJob,
    gavel_vectors,
)

SM, TIME = COLUMN["sm_mean"], COLUMN["step_time_mean"]


def known(row: np.ndarray) -> set[str]:
    return {name for name, at in COLUMN.items() if row[MASK.start + at]}


def test_gavel_has_saturation_and_step_time_and_nothing_else(tmp_path: Path) -> None:
    found = gavel_vectors(write_tables(tmp_path))
    small = found[PublicJob("p100", "LM", "5")]
    assert known(small) == {"sm_mean", "step_time_mean"}
    # 90 steps/s of 5 against 20 steps/s of 80
    assert small[SM] == pytest.approx(450 / 1600)
    assert small[TIME] == pytest.approx(fraction("step_time", 1 / 90))
    assert known(found[PublicJob("p100", "A3C", "")]) == {"step_time_mean"}


def test_a_bad_table_is_named_with_line_and_cure(tmp_path: Path) -> None:
    data = write_tables(tmp_path)
    (data / GAVEL_ISOLATED).write_text("gpu_type,model\nk80,LM\n")
    with pytest.raises(BadTable, match=r"gavel_isolated.*:1: no column consolidated; there are"):
        gavel_vectors(data)
    (data / GAVEL_ISOLATED).unlink()
    with pytest.raises(BadTable, match="No such file"):
        gavel_vectors(data)


def test_a_field_that_is_no_number_is_refused(tmp_path: Path) -> None:
    data = write_tables(tmp_path)
    path = data / GAVEL_ISOLATED
    path.write_text(path.read_text().replace("90.0", "fast"))
    with pytest.raises(BadTable, match=r"csv:2: steps_per_s is 'fast'; want a number"):
        gavel_vectors(data)
