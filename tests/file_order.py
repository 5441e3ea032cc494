"""Which test file goes to which worker: those with a cluster mostly wait, the others compute.

Two of three workers take the files with a cluster first, every third one takes them last, so that
the machine computes while clusters wait. Of each sort the longest come first: those whose tests
have the longest timeout, then those with the most tests. Of a file marked `apart` each value of its
module's parameter goes to a worker of its own.
"""

import re
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[1]
COMPUTES = 3  # every such worker
TIMEOUT_S = 120  # of a test whose file sets none: see pyproject.toml
_TIMEOUT = re.compile(r"pytest\.mark\.timeout\((\d+)")


@cache
def has_cluster(file: str) -> bool:
    """Return whether tests of a file, a path from the root, start Slurm or containers."""
    return has_mark(file, "slurm") or has_mark(file, "compose")


@cache
def has_mark(file: str, name: str) -> bool:
    """Return whether tests of a file have a mark."""
    return f"pytest.mark.{name}" in (ROOT / file).read_text()


@cache
def timeout_s(file: str) -> int:
    """Return the longest timeout that a file sets for its tests."""
    return max(map(int, _TIMEOUT.findall((ROOT / file).read_text())), default=TIMEOUT_S)


def unit_of(test: str) -> str:
    """Return what a test is handed out with: its file, or of one marked `apart` FILE[VALUE]."""
    file, _, name = test.partition("::")
    value = name.partition("[")[2].rstrip("]").partition("-")[0]
    return f"{file}[{value}]" if value and has_mark(file, "apart") else file


def file_of(unit: str) -> str:
    """Return the file of a unit."""
    return unit.partition("[")[0]


def file_order(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Return the scheduler of `--dist loadfile` that hands out files in this order."""
    scheduler = LoadFileScheduling(config, log)
    assign, reschedule = scheduler._assign_work_unit, scheduler._reschedule

    def assign_next(node: WorkerController) -> None:
        computes = int(node.gateway.id.removeprefix("gw")) % COMPUTES == COMPUTES - 1
        units = scheduler.workqueue
        first = max(
            units,
            key=lambda unit: (
                has_cluster(file_of(unit)) is not computes,
                timeout_s(file_of(unit)),
                len(units[unit]),
            ),
        )
        units.move_to_end(first, last=False)
        assign(node)

    def reschedule_late(node: WorkerController) -> None:
        """Give a worker its next file when it runs the last test but one of the file before."""
        if not scheduler.workqueue or scheduler._pending_of(scheduler.assigned_work[node]) <= 1:
            reschedule(node)

    scheduler._assign_work_unit, scheduler._reschedule = assign_next, reschedule_late
    scheduler._split_scope = unit_of
    return scheduler
