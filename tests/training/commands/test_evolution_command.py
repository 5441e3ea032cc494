import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
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


@pytest.fixture
def search(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A search with two worker processes, in a process group as a terminal gives it."""
    program = [sys.executable, "-m", "roost_train.start", *argv(tmp_path)[:-1], "2"]
    process = subprocess.Popen(
        program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    with process:
        yield process
        if _has_processes(process.pid):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("moment", ["workers start", "workers work"])
def test_ctrl_c_is_one_line_and_leaves_no_process(
    search: subprocess.Popen[str], moment: str
) -> None:
    assert search.stderr is not None
    said = ""
    if moment == "workers start":
        _wait(lambda: len(_workers_of(search.pid)) == 2)
    else:
        while "generation 1" not in said:
            said += search.stderr.readline()
    os.killpg(search.pid, signal.SIGINT)  # as Ctrl-C: every process of the group gets it

    _, rest = search.communicate(timeout=120)
    assert search.returncode == 130
    *before, last = (said + rest).splitlines()
    assert last.startswith("roost-train: stopped; the same command continues in ")
    assert not [line for line in before if "generation" not in line]
    _wait(lambda: not _has_processes(search.pid))


def _wait(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 120.0
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.02)


def _workers_of(process_id: int) -> list[int]:
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    names = {int(one): Path(f"/proc/{one}/cmdline").read_bytes() for one in children}
    return [one for one, name in names.items() if b"spawn_main" in name]


def _has_processes(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
