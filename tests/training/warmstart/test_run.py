"""Warm starts: from jobs to a model within 2 % of its teacher's mean completion time."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.training.run_time_traces import as_csv, repeating

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")

from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_train.cli import main
from roost_train.warmstart.run import REAL, warm_start


def silent(total: int):  # type: ignore[no-untyped-def]
    return lambda done, loss: None


@pytest.mark.parametrize("teacher", ["fifo", "learned+consolidation+patient"])
def test_an_imitated_policy_is_within_two_percent(teacher: str, tmp_path: Path) -> None:
    """Trust in predictions falls where run times are drawn, and the learned order with it."""
    drawn = generate(HELIOS, 500, seed=1).fitting(64)
    trace = (drawn if teacher != "fifo" else repeating(400)).at_load(1.1, 64)
    found = warm_start(trace, teacher, "small", tmp_path, seed=0, command="made", progress=silent)
    assert found["agreement_frac"] > 0.98  # type: ignore[operator]
    assert found["ratio"] == pytest.approx(1.0, abs=0.02)
    card = json.loads((tmp_path / "warmstart.json").read_text())["card"]
    assert (card["teacher"], card["command"]) == (teacher, "made")


def test_real_starts_are_imitated_too(tmp_path: Path) -> None:
    trace = repeating(400)
    starts_s = 300_000.0 + np.arange(400)[::-1]  # the newest job first, one by one
    trace = replace(trace, wait_s=starts_s - trace.submit_s)
    found = warm_start(trace, None, "small", tmp_path, seed=0, command="made", progress=silent)
    assert found["teacher"] == REAL
    assert found["agreement_frac"] > 0.95  # type: ignore[operator]
    assert "ratio" not in found


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(as_csv(repeating(300).at_load(1.2, 64)))
    given = ["warmstart", "--trace", str(path), "--out", str(tmp_path / "out")]
    assert main([*given, "--teacher", "fifo"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (tmp_path / "out" / "warmstart.onnx").exists()
    assert told["pairs"] > 200
    assert main([*given, "--teacher", "nothing"]) == 2
    assert "no policy" in capsys.readouterr().err


def test_too_few_jobs_are_named_beside_the_choices_they_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text(as_csv(repeating(300)))
    given = ["warmstart", "--trace", str(path), "--out", str(tmp_path / "out"), "--jobs", "3"]
    assert main([*given, "--teacher", "fifo"]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert ", 3 jobs: 0 choices between two waiting jobs; want 200 or more: take more" in said
