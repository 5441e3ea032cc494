"""Models of kind runtimes, from the file to the answer that an engine gets."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_engine.policies.slots import RUN_TIMES as SLOT
from roost_engine.policies.slots import FaultLog
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.run_time_features import COLUMNS
from roost_engine.prediction.run_time.run_time_model import BlendedRunTimes, RunTimeBlend
from roost_engine.testing.builders import job
from roost_formats.models.checked_model import Arrays, CheckedModel, Session
from roost_formats.models.loader import open_session
from roost_formats.models.manifest import manifest_path
from roost_formats.models.run_times import (
    INPUT_NAME,
    OnnxRunTimes,
    load_onnx_run_times,
    load_run_time_model,
)
from roost_formats.models.signature import RUN_TIMES
from roost_formats.testing.run_time_models import install_run_times, run_time_features
from roost_formats.testing.sessions import FakeClock, NanSession, ShortSession, SlowSession


def test_a_model_answers_with_a_share_for_each_band(tmp_path: Path) -> None:
    model = load_onnx_run_times(install_run_times(tmp_path), FakeClock())
    assert model.name.startswith("onnx:")
    features = run_time_features()
    shares = np.exp(features[:, : model.ending_fracs(features).shape[1]])
    assert model.ending_fracs(features) == pytest.approx(shares, abs=1e-5)


def test_features_of_another_width_are_refused(tmp_path: Path) -> None:
    model = load_onnx_run_times(install_run_times(tmp_path), FakeClock())
    with pytest.raises(PolicyError, match=r"features are float32\[1, 5\]"):
        model.ending_fracs(np.zeros((1, 5), np.float32))


def test_a_model_of_other_columns_is_refused(tmp_path: Path) -> None:
    path = install_run_times(tmp_path, columns=(*COLUMNS[:-1], "phase_of_the_moon"))
    with pytest.raises(PolicyError, match="train it again with this version's roost-train"):
        load_onnx_run_times(path, FakeClock())


def test_a_model_that_answers_otherwise_than_where_it_was_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="is off by"):
        load_onnx_run_times(install_run_times(tmp_path, canary_off=0.1), FakeClock())


def test_a_daemon_without_a_model_has_none() -> None:
    assert load_run_time_model("none") == (None, None)


def wrong_schema(path: Path) -> None:
    manifest = manifest_path(path)
    manifest.write_text(manifest.read_text().replace('"schema_version": 1', '"schema_version": 9'))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (wrong_schema, "trained for schema 9"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "install both from one training"),
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: manifest_path(path).write_text("{"), "not JSON"),
        (lambda path: path.write_bytes(bytes(11_000_000)), "larger than"),
    ],
)
def test_a_model_that_cannot_be_loaded_leaves_the_history_alone(
    tmp_path: Path, damage: Callable[[Path], object], reason: str
) -> None:
    path = install_run_times(tmp_path)
    damage(path)
    model, fault = load_run_time_model(str(path))
    assert model is None
    assert fault is not None
    assert fault.startswith(f"{path}: ")
    assert reason in fault
    assert fault.endswith("; the history of run times answers alone")


class Broken:
    """A session whose runtime raises something of its own."""

    def run(self, inputs: Arrays) -> Arrays:
        raise RuntimeError("segment fault, nearly")


@pytest.mark.parametrize("kind", ["nan", "short", "raises", "slow"])
def test_the_history_answers_whatever_happens_in_the_runtime(tmp_path: Path, kind: str) -> None:
    clock = FakeClock()
    path = install_run_times(tmp_path, band=30)
    session = open_session(path.read_bytes(), RUN_TIMES)
    broken: dict[str, Session] = {
        "nan": NanSession(session),
        "short": ShortSession(session),
        "raises": Broken(),
        "slow": SlowSession(session, clock, *[0.02] * 9),
    }
    columns = {INPUT_NAME: COLUMNS}
    model = CheckedModel(broken[kind], RUN_TIMES, sha256="0" * 64, columns=columns, clock=clock)
    history, faults = RunTimeHistory(), FaultLog()
    blended = BlendedRunTimes(history, RunTimeBlend(model=OnnxRunTimes(model)), faults)
    # The first two slow answers are taken: a single one may be due to the kernel's scheduling.
    for number in range(5):
        spec = job(f"{number}")
        known, got = history.times(spec, 0.0, 0.0), blended.times(spec, 0.0, 0.0)
        is_historys = bool((got.ending_fracs == known.ending_fracs).all())
        assert is_historys == (kind != "slow" or number >= 2)
    assert faults.counts[SLOT] == (3 if kind == "slow" else 5)
    (failed,) = faults.take()
    assert failed.slot == SLOT
    if kind == "slow":
        assert "took 20.0 ms, more than 10 ms 3 times in a row" in failed.reason


def test_a_file_that_is_swapped_while_a_model_is_in_use_changes_nothing_until_it_is_loaded_again(
    tmp_path: Path,
) -> None:
    path = install_run_times(tmp_path, band=30)
    model = load_onnx_run_times(path, FakeClock())
    before = model.ending_fracs(run_time_features())
    path.write_bytes(b"half a mod")
    assert (model.ending_fracs(run_time_features()) == before).all()
    found, fault = load_run_time_model(str(path))
    assert found is None
    assert fault is not None
    assert "install both from one training" in fault
