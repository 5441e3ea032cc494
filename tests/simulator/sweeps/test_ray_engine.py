"""The Ray engine: the same numbers, and what is missing without Ray."""

import os
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.conftest import missing
from tests.simulator.sweeps.cases import sweep
from tests.simulator.sweeps.program import ARGUMENTS, WINDOW, printed

from roost_sim.sweeps import ray_engine
from roost_sim.sweeps.ray_engine import RayEngine, RayError, connect
from roost_sim.sweeps.sweep import Case, Failed


@pytest.mark.timeout(400)  # Ray may take minutes to start
def test_ray_changes_nothing(trace: Path, expected: str) -> None:
    if find_spec("ray") is None:
        missing("Ray is not installed: pip install 'roost[ray]'")
    assert printed(trace, "11", "--engine", "ray", "--processes", "2") == expected


class LateRay:
    """Ray on a machine on which its processes do not start in time at first."""

    def __init__(self, *failures: str) -> None:
        self.failures, self.calls = list(failures), list[str]()

    def init(self, **options: object) -> None:
        self.calls.append(f"init {options['address']}")
        if self.failures:
            raise Exception(self.failures.pop(0))

    def shutdown(self) -> None:
        self.calls.append("shutdown")


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nothing_listens_is_refused_without_asking_ray(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    late = LateRay()
    monkeypatch.setattr(ray_engine, "import_module", lambda name: late)
    with socket.socket() as unused:  # bound and not listening: connections are refused
        unused.bind(("127.0.0.1", 0))
        address = f"{scheme}127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(RayError, match=f"^no Ray at {address}: Connection refused; see `ray"):
            connect(address, 1)
    assert late.calls == []


@pytest.mark.parametrize(
    ("address", "failures", "calls", "said"),
    [
        (None, [], ["init local"], ""),
        (None, ["it timed out\nx"], ["init local", "shutdown", "init local"], ""),
        (
            None,
            ["timed out\nx"] * 2,
            ["init local", "shutdown"] * 2,
            "this machine: timed out",
        ),
        (None, ["no disk", ""], ["init local", "shutdown"], "this machine: no disk"),
        ("auto", ["it timed out"], ["init auto", "shutdown"], "auto: it timed out"),
        ("auto", [""], ["init auto", "shutdown"], "auto: Exception('')"),
    ],
)
def test_a_ray_that_starts_late_is_started_once_more(
    monkeypatch: pytest.MonkeyPatch,
    address: str | None,
    failures: list[str],
    calls: list[str],
    said: str,
) -> None:
    ray = LateRay(*failures)
    monkeypatch.setattr(ray_engine, "_import_ray", lambda: ray)
    if said:
        with pytest.raises(RayError, match=f"^no Ray at {re.escape(said)}$"):
            connect(address, 2)
    else:
        found: object = connect(address, 2)
        assert found is ray
    assert ray.calls == calls


class Lost(Exception):
    """Ray's error of a task whose machine was lost."""


class LosingRay(LateRay):
    """A Ray that loses every task, and does not say why."""

    exceptions = SimpleNamespace(RayError=Lost)

    def put(self, value: object) -> object:
        return value

    def remote(self, **options: object) -> object:
        return lambda function: SimpleNamespace(remote=lambda sweep, case: "task")

    def cluster_resources(self) -> dict[str, float]:
        return {}

    def wait(self, references: list[str], *, num_returns: int) -> tuple[list[str], list[str]]:
        return references, []

    def get(self, reference: str) -> None:
        raise Lost


def test_a_task_that_is_lost_without_a_word_fails_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_import_ray", LosingRay)
    case = Case("fifo", 0, None)
    found = list(RayEngine(None, 1).perform(sweep(), [case]))
    assert found == [Failed(case, "Lost()")]


def test_without_ray_the_extra_is_named(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('hidden by a test')")
    argv = ["compare", "--trace", str(trace), "--engine", "ray", *ARGUMENTS, *WINDOW]
    done = subprocess.run(
        [sys.executable, "-m", "roost_sim.cli", *argv],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == "roost-sim: --engine ray needs Ray: pip install 'roost[ray]'\n"
