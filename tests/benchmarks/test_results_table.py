"""The tables of docs/results are made from what a comparison printed."""

import importlib.util
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
