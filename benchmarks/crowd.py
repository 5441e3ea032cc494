"""What a crowd of waiting jobs costs the thread that decides, task by task, without Slurm itself.

Each figure is the CPU time of one run of a task: a dump of the queue and its second reading when
one line has changed, a poll of the daemon, the renewal of all leases while thousands of jobs were
released, the answer to GetStatus, the turn of a reload, and the list of jobs that `roostctl jobs`
shows.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import _harness
from prometheus_client import CollectorRegistry

from roost_engine.domain.events import Event
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import node
from roost_slurm.text.squeue import FIELDS, SEPARATOR
from roostd.app.actions.applier import Applier
from roostd.app.decision.earlier_waits import keep_waits
from roostd.app.decision.recorder import Recorder
from roostd.app.gauges import set_gauges
from roostd.app.polls.slurm_watch import SlurmWatch
from roostd.config.config import Config
from roostd.ops.clock import MonotonicClock
from roostd.ops.metrics import Metrics
from roostd.rpc.messages import daemon_status, jobs
from roostd.rpc.messages.outlook import outlooks
from roostd.slurm.port import QueueSnapshot
from roostd.slurm.slurm_cli import SlurmCli
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard
from roostd.testing.slurm_stand_in import SlurmStandIn

RELEASED_COUNT, REQUEUED_COUNT, LISTED_COUNT = 5_000, 1_000, 1_300
VALUES = {
    "ArrayTaskID": "N/A",
    "UserID": "1000",
    "Partition": "main",
    "State": "PENDING",
    "Reason": "BeginTime",
    "PriorityLong": "1000",
    "SubmitTime": "2026-11-22T15:52:14",
    "StartTime": "2026-11-22T15:53:14",
    "EligibleTime": "2026-11-22T15:53:14",
    "TimeLimit": "1:00:00",
    **dict.fromkeys(("NumNodes", "NumTasks", "NumCPUs", "cpus-per-task", "NTPerNode"), "1"),
    "tres-per-node": "gres/gpu:2",
    "tres-alloc": "cpu=1,mem=100M,node=1,billing=1,gres/gpu=2",
    "RestartCnt": "0",
    "admin_comment": "roost:lease",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=20_000, help="waiting jobs")
    parser.add_argument("--repeats", type=_harness.whole, default=3, help="of each task")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(options.jobs, options.repeats))
    _harness.report({**figures, "jobs": options.jobs}, as_json=options.json)


async def measure(job_count: int, repeats: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        crowd = Crowd(Path(folder))
        await crowd.submit(job_count)
        figures = await dumps(job_count)
        figures["look_ms"] = await median_ms(crowd.watch.first_poll, repeats)
        figures["look_turn_ms"] = await longest_turn_ms(crowd.watch.first_poll, repeats)
        crowd.release_many()
        figures["renew_ms"] = await median_ms(crowd.renew, repeats)
        crowd.slurm.requeue_some(REQUEUED_COUNT)
        await crowd.watch.first_poll()
        figures["look_with_requeued_ms"] = await median_ms(crowd.watch.first_poll, repeats)
        figures["status_ms"] = await median_ms(crowd.status, repeats)
        figures["reload_ms"] = await median_ms(crowd.reload, repeats)
        figures["gauges_ms"] = await median_ms(crowd.gauges, repeats)
        figures["jobs_list_ms"] = await median_ms(crowd.listed, repeats)
        return figures


async def dumps(job_count: int) -> dict[str, float]:
    """Return what it costs to read a dump, and one of which a line has changed."""
    port = SlurmCli(queue_interval_s=0.0)
    texts = [dump(job_count), dump(job_count, {"PriorityLong": "1001"})]

    async def run(argv: object, *, may_fail: bool = False) -> str:
        return texts[0]

    port._run = run
    port._details.look_up = nothing  # type: ignore[method-assign]
    first_ms = await median_ms(port.queue, 1)
    texts.reverse()
    return {"dump_ms": first_ms, "next_dump_ms": await median_ms(port.queue, 1)}


async def nothing(jobs: object) -> None:
    """Take the place of what asks Slurm."""


def dump(job_count: int, first: dict[str, str] | None = None) -> str:
    """Return what squeue prints of waiting jobs."""
    lines = []
    for number in range(1, job_count + 1):
        values = VALUES | {"JobID": str(number), "ArrayJobID": str(number)}
        values |= (first or {}) if number == 1 else {}
        lines.append("".join(f"{values.get(field, 'N/A')}{SEPARATOR}" for field in FIELDS))
    return "\n".join(lines)


class _Slurm(SlurmStandIn):
    _snapshot: QueueSnapshot | None = None
    is_still = False

    def tick(self) -> None:
        """Start what may start; nothing, while jobs are submitted that find no GPU."""
        if not self.is_still:
            super().tick()

    async def queue(self) -> QueueSnapshot:
        """Return the same records each time, as roostd keeps them for jobs that do not change."""
        if self._snapshot is None:
            self._snapshot = await super().queue()
        return self._snapshot

    def requeue_some(self, count: int) -> None:
        """Make it as if these jobs had run before."""
        assert self._snapshot is not None
        first, others = self._snapshot.jobs[:count], self._snapshot.jobs[count:]
        requeued = (replace(job, restart_count=1) for job in first)
        self._snapshot = replace(self._snapshot, jobs=(*requeued, *others))

    async def renew(self, job_ids: Iterable[JobId], lease_s: int) -> None:
        """Renewing costs Slurm, not roostd."""


class Crowd:
    """A daemon's parts over an in-memory Slurm whose GPUs are all in use."""

    def __init__(self, folder: Path) -> None:
        self.slurm = _Slurm([node("n1", cpu_count=0)], now=lambda: 1_000.0)
        clock = MonotonicClock(1_000.0, time.time())
        self.metrics = Metrics(CollectorRegistry())
        self.recorder = Recorder(None, fault="no disk")
        self.state = DaemonState(
            version="0",
            clock=clock,
            config=Config.model_validate({"mode": "enforce"}),
            engine=Engine(EngineConfig(), Policies()),
            board=ProbeBoard(clock.now_s, self._emit),
            slurm_fault="",
        )
        self.watch = SlurmWatch(
            self.slurm, self.state, self.metrics, self._emit, lambda job_ids: None, folder
        )
        self.applier = Applier(
            self.slurm,
            self.state,
            self.recorder,
            self.metrics,
            self._emit,
            lambda job_id: None,
            lambda: None,
            4,
        )

    def _emit(self, event: Event) -> None:
        self.state.engine.step(event)

    async def submit(self, count: int) -> None:
        """Submit jobs for which there is no GPU, and look at them once."""
        self.slurm.is_still = True
        for number in range(count):
            self.slurm.submit(gpus=1 + number % 8, user_id=1_000 + number % 50)
        await self.watch.first_poll()

    def release_many(self) -> None:
        """Make it as if many jobs had been released to Slurm."""
        self.applier._releases._released.update(list(self.watch.leased())[:RELEASED_COUNT])

    async def renew(self) -> None:
        """Renew every lease."""
        await self.applier.renew(self.watch.leased())

    async def status(self) -> Any:
        """Answer GetStatus."""
        return daemon_status.status(self.state)

    async def reload(self) -> None:
        """Do what a reload does in one turn of the loop: keep the waits, read the queue again."""
        keep_waits(self.state)
        self.state.earlier_records.clear()  # as when the fresh engine has been told of its jobs
        deque(self.watch.cluster_events())

    async def gauges(self) -> None:
        """Set the gauges of Prometheus."""
        set_gauges(self.metrics, self.state, self.recorder)

    async def listed(self) -> Any:
        """Answer ListJobs, of LISTED_COUNT jobs."""
        found = jobs.jobs(self.state, False, dict(outlooks(self.state)))
        return [job.SerializeToString() for _, job in zip(range(LISTED_COUNT), found, strict=False)]


async def median_ms(work: Callable[[], Any], repeats: int) -> float:
    """Return the median CPU time of this process, in milliseconds."""
    took_ms = []
    for _ in range(repeats):
        began_s = time.process_time()
        await work()
        took_ms.append((time.process_time() - began_s) * 1e3)
    return statistics.median(took_ms)


async def longest_turn_ms(work: Callable[[], Any], repeats: int) -> float:
    """Return the most CPU time that the loop's own thread spent in one turn, in milliseconds."""
    longest_ms, began_s = 0.0, time.thread_time()
    is_over = False

    async def note() -> None:
        nonlocal longest_ms, began_s
        while not is_over:
            now_s = time.thread_time()
            longest_ms, began_s = max(longest_ms, (now_s - began_s) * 1e3), now_s
            await asyncio.sleep(0)

    noting = asyncio.create_task(note())
    for _ in range(repeats):
        await work()
    is_over = True
    await noting
    return longest_ms


if __name__ == "__main__":
    main()
