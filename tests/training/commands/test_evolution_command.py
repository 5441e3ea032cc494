import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import pytest

from roost_sim.traces.csv_file import write_csv
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_train.cli import main

pytestmark = pytest.mark.torch


ONE_NODE = """
name: one-node
tiers: {node: {gbytes_per_s: 20}, rack: {gbytes_per_s: 10}, pod: {gbytes_per_s: 10}}
node_kinds: {eight: {links: pcie8}}
racks: {r0: {nodes: {eight: 1}}}
"""


def argv(folder: Path) -> list[str]:
    """A search on eight GPUs, so that an episode has 48 jobs."""
    jobs, cluster = folder / "jobs.csv", folder / "cluster.yaml"
    write_csv(generate(HELIOS, 300, seed=3).fitting(8), jobs)
    cluster.write_text(ONE_NODE, encoding="utf-8")
    words = ["evolve", "--trace", str(jobs), "--cluster", str(cluster)]
    return [*words, "--out", str(folder / "out"), "--processes", "1"]


def test_a_search_without_time_releases_the_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*argv(tmp_path), "--minutes", "0"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["generation"] == 0
    assert Path(found["model"]).exists()
    assert found["to_teacher"] > 0.0


def test_bad_options_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*argv(tmp_path)[:-1], "0"]) == 2
    assert "--processes 0: want 1 or more" in capsys.readouterr().err
    assert main([*argv(tmp_path), "--generations", "0"]) == 2
    assert "--generations 0: want 1 or more" in capsys.readouterr().err


def test_a_short_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = argv(tmp_path)
    write_csv(generate(HELIOS, 20, seed=3), tmp_path / "jobs.csv")
    assert main(words) == 2
    assert "take a longer time" in capsys.readouterr().err
