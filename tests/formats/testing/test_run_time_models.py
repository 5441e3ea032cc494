"""Models of run times for tests answer as they promise."""

from pathlib import Path

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_engine.prediction.run_time.run_time_features import COLUMNS
from roost_formats.models.run_times import load_onnx_run_times
from roost_formats.testing.run_time_models import install_run_times, run_time_features
from roost_formats.testing.sessions import FakeClock


def test_a_model_of_one_band_says_that_all_jobs_end_in_it(tmp_path: Path) -> None:
    model = load_onnx_run_times(install_run_times(tmp_path, band=30), FakeClock())
    assert (model.ending_fracs(run_time_features())[:, 30] > 0.99).all()


def test_a_model_can_fail_for_gangs_alone(tmp_path: Path) -> None:
    model = load_onnx_run_times(install_run_times(tmp_path, breaks_on_gangs=True), FakeClock())
    features = run_time_features()
    assert np.isfinite(model.ending_fracs(features)).all()
    features[:, COLUMNS.index("gpus")] = np.log(4.0)
    with pytest.raises(PolicyError, match="answered NaN or infinity"):
        model.ending_fracs(features)
