"""The options of `roost-train selector`."""

from pathlib import Path

import pytest
from tests.training.environments.small_episodes import trace

from roost_sim.traces.csv_file import write_csv
from roost_train.cli import main


def test_options_of_ray_need_ray(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    write_csv(trace(), tmp_path / "jobs.csv")
    argv = ["selector", "--trace", str(tmp_path / "jobs.csv"), "--cluster", "small"]
    assert main([*argv, "--out", str(tmp_path), "--processes", "2"]) == 2
    assert "--ray-address and --processes go with --engine ray" in capsys.readouterr().err
    assert main([*argv, "--out", str(tmp_path), "--engine", "ray", "--processes", "0"]) == 2
    assert "--processes 0: want 1 or more" in capsys.readouterr().err
