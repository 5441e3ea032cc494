"""docs/architecture.md is true: its tables, the daemon's tasks, and the walk of a job."""

import asyncio
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from types import CodeType, FrameType

import pytest
from tests.daemon.running import config, running
from tests.docs.module_map import CONTRACTS, MARK, PAGE, layers_of, rows, updated

from roost_engine.testing import builders
from roostd.slurm.slurm_cli import SlurmCli
from roostd.testing.slurm_stand_in import SlurmStandIn

TABLES = (
    "packages",
    "roost_engine",
    "roost_engine.prediction",
    "roost_formats",
    "roostd",
    "roostd.app",
    "roostd.rpc",
    "roost_probe",
    "roostctl",
    "roost_sim",
    "roost_sim.worlds",
    "roost_slurm",
    "roost_train",
)
SELDOM = {"slurm": {"poll_interval_s": 600.0}}  # so that only the spool wakes the watch


def section(title: str) -> str:
    return PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_tables_are_those_of_the_contracts(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden"):
        PAGE.write_text(page := updated(page), encoding="utf-8")
    assert page == updated(page), "run this test with --update-golden and read the diff"


def test_every_layers_contract_has_a_table() -> None:
    containers = [
        name.get("containers", ["packages"])[0] for name in CONTRACTS if name["type"] == "layers"
    ]
    assert sorted(containers) == sorted(TABLES)
    assert tuple(found[1] for found in MARK.finditer(PAGE.read_text())) == TABLES


def test_a_table_lists_packages_and_modules_in_the_order_of_the_layers() -> None:
    for found in MARK.finditer(PAGE.read_text()):
        container = "" if found[1] == "packages" else found[1]
        prefix = f"{container}." if container else ""
        listed = [prefix + name for name in re.findall(r"^\| `([\w.]+)` ", found[2], re.MULTILINE)]
        assert listed == [name for layer in layers_of(container) for name in layer]


def test_neighbours_of_a_layer_do_not_import_each_other_and_the_engine_imports_no_package() -> None:
    packages = {row.name: row.imports for row in rows("")}
    assert packages["roost_engine"] == ()
    assert "roostd" not in packages["roost_sim"]
    assert "roost_sim" not in packages["roostd"]
    assert "roost_engine" in packages["roostd"]
    engine = {row.name: row.imports for row in rows("roost_engine")}
    assert "roost_engine.gate" not in engine["roost_engine.preemption"]
    assert "roost_engine.prediction" in engine["roost_engine.gate"]


# -- the daemon's tasks ------------------------------------------------------------------------


async def test_the_daemon_has_the_tasks_of_the_page(tmp_path: Path) -> None:
    named = re.findall(r"^\| `([\w.]+)` \|", section("The daemon's tasks"), re.MULTILINE)
    slurm = SlurmStandIn([builders.node("n1")])

    async with running(slurm, config(tmp_path)):
        await asyncio.sleep(0)  # each task has begun
        codes = [
            coroutine.cr_code
            for task in asyncio.all_tasks()
            if inspect.iscoroutine(coroutine := task.get_coro())
        ]

    tasks = {code.co_qualname for code in codes if "/roostd/" in code.co_filename}
    assert sorted(tasks - {"Daemon.run"}) == sorted(named)


# -- the walk of a job -------------------------------------------------------------------------


def walk() -> list[tuple[str, str]]:
    """The module and the function of each step."""
    table = section("The walk of a job")
    return re.findall(r"^\| `([\w.]+)` \| `([\w.]+)` \|", table, re.MULTILINE)


def code_of(module: str, function: str) -> CodeType:
    """The code of a function; what SlurmCli does on a real cluster, the stand-in does here."""
    found = reduce(getattr, function.split("."), importlib.import_module(module))
    if function.startswith(f"{SlurmCli.__name__}."):
        found = getattr(SlurmStandIn, function.partition(".")[2])
    assert inspect.isroutine(found)
    return inspect.unwrap(found).__code__


@contextmanager
def calls(of: set[CodeType]) -> Iterator[list[CodeType]]:
    """Record every call of some functions in this thread."""
    called: list[CodeType] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code in of:
            called.append(frame.f_code)

    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)


def is_in_order(wanted: list[CodeType], called: list[CodeType]) -> bool:
    """Whether `wanted` is what remains of `called` when other calls are left out."""
    left = iter(called)
    return all(code in left for code in wanted)


async def test_a_job_walks_through_the_functions_of_the_page_in_their_order(tmp_path: Path) -> None:
    steps = [code_of(module, function) for module, function in walk()]
    slurm = SlurmStandIn([builders.node("n1")])
    settings = config(tmp_path, gate={"kind": "delay"}, **SELDOM)

    async with running(slurm, settings) as daemon:
        with calls(set(steps)) as called:
            await daemon.until_running(*slurm.submit(gpus_per_node=2))

    assert set(steps) - set(called) == set()
    assert is_in_order(steps, called)


def test_the_walk_visits_the_packages_of_a_pass_and_of_the_daemon() -> None:
    visited = {module for module, _ in walk()}
    for package in ("table", "queue", "placement", "cluster", "policies", "scoring"):
        assert any(module.startswith(f"roost_engine.{package}") for module in visited)
    for package in ("app", "slurm"):
        assert any(module.startswith(f"roostd.{package}.") for module in visited)


def test_an_order_of_calls_is_told_from_another() -> None:
    one, two = is_in_order.__code__, walk.__code__
    assert is_in_order([one, two], [two, one, one, two])
    assert not is_in_order([one, two], [two, one])
