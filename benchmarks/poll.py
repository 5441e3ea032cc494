"""What a poll of Slurm's queue costs roostd, by the number of waiting jobs: without squeue itself.

The first poll reads every job; a later one reads only jobs that have changed. The site has limits,
so each job's quotas are computed too.
"""

import argparse
import asyncio
import statistics
import time
from dataclasses import replace

import _harness

from roost_engine.domain.model import NodeName
from roost_engine.testing.builders import node
from roost_slurm.text.assoc_mgr import AssocMgr, GroupLimits, Qos
from roost_slurm.text.partitions import Partition
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.versions import SlurmVersion, traits_of
from roostd.config.config import Mode
from roostd.slurm.jobs import JobReader
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.queue_reading import view
from roostd.slurm.queue_view import SiteView, SlurmQueueView
from roostd.slurm.rules.site_rules import SiteRules
from roostd.slurm.sync import diff
from roostd.testing.slurm_stand_in import SlurmStandIn

VERSION = SlurmVersion(24, 11, 5)
NAMES = (NodeName("n1"),)
USER_COUNT = 50
GPU_COUNTS = (1, 2, 4, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=10_000, help="waiting jobs")
    parser.add_argument("--repeats", type=_harness.whole, default=7, help="of each poll")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    snapshot = asyncio.run(waiting(options.jobs))
    first_s = [look(snapshot, SlurmQueueView())[1] for _ in range(options.repeats)]
    known, _ = look(snapshot, SlurmQueueView())
    later_s = [look(snapshot, known)[1] for _ in range(options.repeats)]
    one_s = [look(changed(snapshot), known)[1] for _ in range(options.repeats)]
    _harness.report(
        {
            "first_look_ms": statistics.median(first_s) * 1e3,
            "later_look_ms": statistics.median(later_s) * 1e3,
            "one_change_ms": statistics.median(one_s) * 1e3,
            "jobs": options.jobs,
        },
        as_json=options.json,
    )


async def waiting(job_count: int) -> QueueSnapshot:
    """Return a queue of waiting jobs with limits."""
    slurm = SlurmStandIn([node(name) for name in NAMES], now=lambda: 1_000.0, version=VERSION)
    for number in range(job_count):
        slurm.submit(gpus=GPU_COUNTS[number % 4], user_id=1_000 + number % USER_COUNT)
    snapshot = await slurm.queue()
    jobs = (replace(job, account="science", qos="normal") for job in snapshot.jobs)
    return replace(snapshot, jobs=tuple(jobs))


def changed(snapshot: QueueSnapshot) -> QueueSnapshot:
    """Return a queue of which one job has changed."""
    first, *others = snapshot.jobs
    return replace(snapshot, jobs=(replace(first, time_limit_s=77.0), *others))


def look(snapshot: QueueSnapshot, before: SlurmQueueView) -> tuple[SlurmQueueView, float]:
    """Return the view of a queue, and the seconds that the view and its events took."""
    began_s = time.perf_counter()
    found = view(snapshot, READER, NAMES, before, 1_000.0, SITE)
    diff(before, found, 1_000.0)
    return found, time.perf_counter() - began_s


READER = JobReader(
    to_engine_s=lambda epoch_s: epoch_s,
    mode_of=lambda partition: Mode.ENFORCE,
    traits=traits_of(VERSION),
    accounts_memory=False,
)
USER_LIMIT = GroupLimits(tres={"gres/gpu": 16.0})
SITE = SiteView(
    rules=SiteRules(
        scheduling=Scheduling(enforced=frozenset({"limits"})),
        partitions={"main": Partition(name="main")},
        accounting=AssocMgr({"normal": Qos(name="normal", per_user=USER_LIMIT)}, {}),
    )
)

if __name__ == "__main__":
    main()
