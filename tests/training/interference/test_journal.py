"""roost_train.interference.journal: reports of a journal with their cases."""

from pathlib import Path

import numpy as np
import pytest
from tests.training.interference_journals import DAY_S, DAYS, JOBS_A_DAY, OF_OTHERS, write_journal

from roost_engine.prediction.interference.interference_model import PriorModel
from roost_engine.prediction.interference.interference_vector import COLUMN
from roost_train.interference.journal import read_reports


def test_every_report_beside_a_neighbour_has_its_loads_and_its_speed(tmp_path: Path) -> None:
    done = list[int]()
    found = read_reports(write_journal(tmp_path, lambda day: 1.0, 0.0), PriorModel(), done.append)
    assert len(found) == DAYS * JOBS_A_DAY
    assert done[-1] == 2 + 8 * len(found)
    own, beside = found.cases.own[:, COLUMN["pcie_mean"]], found.cases.level("nic")
    other = beside[:, COLUMN["pcie_mean"]]
    assert found.slowdown == pytest.approx(own * other, rel=1e-3)  # `other` is weighted
    assert beside[:, -1] == pytest.approx(np.full(len(found), OF_OTHERS))
    assert found.epoch_s[0] == pytest.approx(1.7e9 + 60)
    assert found.epoch_s[-1] - found.epoch_s[0] == pytest.approx((DAYS - 1 / 6) * DAY_S)
    assert set(found.tier.tolist()) == {0}
    assert len(set(found.job.tolist())) == len(found)
    assert len(set(found.user.tolist())) == 7
