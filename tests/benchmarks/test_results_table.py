"""The tables of docs/results are made from what a comparison printed."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "results_table.py"


@pytest.fixture
def table() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("results_table", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def summary(policy: str, load: float, ratio: float | None) -> dict[str, object]:
    jct: dict[str, object] = {"mean": 3600.0, "ci95": None}
    if ratio is not None:
        jct["ratio"] = {"mean": ratio, "ci95": [ratio - 0.1, ratio + 0.1]}
    metrics = {"avg_jct_s": jct}
    return {"policy": policy, "load": load, "regime": "none", "seeds": [0], "metrics": metrics}


def test_a_column_a_load_and_the_best_at_the_last_load_first(table: ModuleType) -> None:
    found = [summary("fifo", 0.9, None), summary("fifo", 1.1, None)]
    found += [summary("las", 0.9, 1.2), summary("las", 1.1, 0.8)]
    assert table.by_load(found).splitlines() == [
        "| policy | knows | seeds | load 0.9 | load 1.1 |",
        "|---|---|---|---|---|",
        "| `las` | none | 1 | 1.20 (1.10 to 1.30) | 0.80 (0.70 to 0.90) |",
        "| `fifo` | none | 1 | 1.00 | 1.00 |",
    ]


def test_what_was_not_run_is_a_dash(table: ModuleType) -> None:
    found = [summary("fifo", 0.9, None), summary("fifo", 1.1, None), summary("las", 1.1, 0.8)]
    assert "| `las` | none | 1 | - | 0.80 (0.70 to 0.90) |" in table.by_load(found)


def test_policies_that_completed_other_jobs_have_a_dash(table: ModuleType, tmp_path: Path) -> None:
    marked = summary("las", 0.9, None) | {"not_comparable": "other jobs than under fifo"}
    assert "| `las` | none | 1 | - |" in table.by_load([summary("fifo", 0.9, None), marked])
    path = tmp_path / "compared.json"
    runs = [
        run(name, 0, 3_600.0) | {"completed": count}
        for name, count in (("slurm", 98), ("roost", 100))
    ]
    path.write_text(json.dumps(runs), encoding="utf-8")
    assert "| `roost` | 1 | 1.00 | - | - | 3 | 0.250 |" in table.ratios_to("slurm", [path])


def run(policy: str, seed: int, jct_s: float, load: float = 1.1) -> dict[str, object]:
    figures = {"avg_jct_s": jct_s, "p99_jct_s": 2 * jct_s, "preemptions": 3, "comm_share": 0.25}
    return {"policy": policy, "load": load, "seed": seed, **figures}


def test_ratios_are_of_runs_with_the_same_seed_also_from_several_files(
    table: ModuleType, tmp_path: Path
) -> None:
    slurm = [run("slurm", 0, 3_600.0), run("slurm", 1, 7_200.0), run("slurm", 2, 36_000.0)]
    roost = [run("roost", 0, 1_800.0), run("roost", 1, 3_600.0)]
    for name, runs in (("slurm.json", slurm), ("roost.json", [*roost, {"summary": True}])):
        (tmp_path / name).write_text(json.dumps(runs), encoding="utf-8")
    lines = table.ratios_to("slurm", sorted(tmp_path.iterdir())).splitlines()
    assert lines[0] == ("| policy | seeds | 1.1: hours | ÷ `slurm` | p99 ÷ | stops | comm. share |")
    assert lines[2] == "| `roost` | 2 | 0.75 ± 3.18 | 0.50 ± 0.00 | 0.50 ± 0.00 | 3 | 0.250 |"
    assert lines[3].startswith("| `slurm` | 3 | 4.33 ± ")


def test_a_policy_that_was_not_run_at_a_load_has_dashes_there(
    table: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "compared.json"
    both = [run("slurm", 0, 3_600.0, 0.9), run("slurm", 0, 7_200.0), run("slurm", 1, 7_200.0)]
    path.write_text(json.dumps([*both, run("roost", 0, 3_600.0)]), encoding="utf-8")
    _, _, slurm, roost = table.ratios_to("slurm", [path]).splitlines()
    assert slurm == (
        "| `slurm` | 1 to 2 | 1.00 | 1.00 | 1.00 | 3 | 0.250"
        " | 2.00 ± 0.00 | 1.00 ± 0.00 | 1.00 ± 0.00 | 3 | 0.250 |"
    )
    assert roost == "| `roost` | 1 | - | - | - | - | - | 1.00 | 0.50 | 0.50 | 3 | 0.250 |"
