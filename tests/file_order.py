"""Which test file goes to which worker: those with a cluster mostly wait, the others compute.

Two of three workers take the files with a cluster first, every third one takes them last, so that
the machine computes while clusters wait. Of each sort the longest come first: those whose tests
have the longest timeout, then those with the most tests.
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
    text = (ROOT / file).read_text()
    return any(f"pytest.mark.{mark}" in text for mark in ("slurm", "compose"))


@cache
def timeout_s(file: str) -> int:
    """Return the longest timeout that a file sets for its tests."""
    return max(map(int, _TIMEOUT.findall((ROOT / file).read_text())), default=TIMEOUT_S)


def file_order(config: pytest.Config, log: Producer) -> LoadFileScheduling:
    """Return the scheduler of `--dist loadfile` that hands out files in this order."""
    scheduler = LoadFileScheduling(config, log)
    assign, reschedule = scheduler._assign_work_unit, scheduler._reschedule

    def assign_next(node: WorkerController) -> None:
        computes = int(node.gateway.id.removeprefix("gw")) % COMPUTES == COMPUTES - 1
        units = scheduler.workqueue
        file = max(
            units,
            key=lambda file: (
                has_cluster(file) is not computes,
                timeout_s(file),
                len(units[file]),
            ),
        )
        units.move_to_end(file, last=False)
        assign(node)

    def reschedule_late(node: WorkerController) -> None:
        """Give a worker its next file when it runs the last test but one of the file before."""
        if not scheduler.workqueue or scheduler._pending_of(scheduler.assigned_work[node]) <= 1:
            reschedule(node)

    scheduler._assign_work_unit, scheduler._reschedule = assign_next, reschedule_late
    return scheduler
