"""benchmarks/delay_grid.py: what a grid of comparisons comes to."""

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def run_of(gate: str, load: float, seed: int, hours: float) -> dict[str, object]:
    seconds = {"avg_jct_s": 3_600 * hours, "avg_comm_s": 600 * hours}
    return {"policy": f"las+consolidation+{gate}+las", "load": load, "seed": seed, **seconds}


def tables(tmp_path: Path, **files: list[dict[str, object]]) -> list[str]:
    paths = []
    for name, runs in files.items():
        path = tmp_path / f"{name.replace('_', '-')}.json"
        path.write_text(json.dumps([*runs, {"summary": True}]))
        paths.append(str(path))
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "delay_grid.py"), *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


def test_means_over_cells_and_the_congested_ones(tmp_path: Path) -> None:
    # Load 0.9 at 8:1 is congested: -50 % and -30 %, mean -40 %, half of the interval
    # 12.706 · 10 %. Load 0.9 at 1:1 is not: +10 % and +10 %. All: -20 % and -10 %, mean -15 %.
    lines = tables(
        tmp_path,
        mix_8=[
            *(run_of("open", 0.9, seed, 10.0) for seed in (0, 1)),
            run_of("delay", 0.9, 0, 5.0),
            run_of("delay", 0.9, 1, 7.0),
        ],
        mix_1=[
            *(run_of("open", 0.9, seed, 10.0) for seed in (0, 1)),
            *(run_of("delay", 0.9, seed, 11.0) for seed in (0, 1)),
        ],
    )
    assert lines[:3] == [
        "| gate | all 2 cells | 1 congested cells | worst cell |",
        "|---|---|---|---|",
        "| `delay` | -15.0% (-78.5% to +48.5%) | -40.0% (-167.1% to +87.1%) | +10.0% |",
    ]
    assert "| mix | 0.9 | +10.0% (+10% to +10%) | -40.0% (-50% to -30%) |" in lines


def test_low_load_and_low_oversubscription_are_not_congested(tmp_path: Path) -> None:
    runs = [run_of(gate, 0.7, 0, 1.0) for gate in ("open", "delay")]
    assert tables(tmp_path, mix_8=runs)[2] == "| `delay` | +0.0% | - | +0.0% |"
    runs = [run_of(gate, 1.1, 0, 1.0) for gate in ("open", "delay")]
    assert tables(tmp_path, mix_2=runs)[2].startswith("| `delay` | +0.0% | - |")
