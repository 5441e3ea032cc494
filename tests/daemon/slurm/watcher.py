"""An in-memory Slurm, and the events between two polls of it."""

from roost_engine.domain.events import (
    Event,
    JobChanged,
    JobEnded,
    JobQueued,
    JobStarted,
    JobWithdrawn,
)
from roost_engine.domain.model import JobId, NodeName, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_engine.testing.builders import node
from roost_slurm.text.versions import SlurmVersion, traits_of
from roostd.config.config import Mode
from roostd.slurm.jobs import JobReader
from roostd.slurm.queue_reading import view
from roostd.slurm.queue_view import SiteView, SlurmQueueView
from roostd.slurm.sync import diff
from roostd.testing.slurm_stand_in import SlurmStandIn

BOOKWORM = SlurmVersion(22, 5, 8)
NODES = [node("n1", cpu_count=16), node("n2", cpu_count=16)]


class Watcher:
    """An in-memory Slurm, its clock, and the events between two polls of it."""

    def __init__(self, version: SlurmVersion = BOOKWORM) -> None:
        self.now_s = 1000.0
        self.slurm = SlurmStandIn(NODES, now=lambda: self.now_s, version=version)
        self.view, self.site = SlurmQueueView(), SiteView()
        self.reader = JobReader(
            to_engine_s=lambda epoch_s: epoch_s,
            mode_of=lambda partition: Mode.ENFORCE,
            traits=traits_of(version),
            accounts_memory=False,
        )

    async def poll(self) -> tuple[Event, ...]:
        before, snapshot = self.view, await self.slurm.queue()
        names = [NodeName("n1"), NodeName("n2")]
        self.view = view(snapshot, self.reader, names, before, self.now_s, self.site)
        return diff(before, self.view, self.now_s)

    async def kinds(self) -> list[tuple[str, str]]:
        return [(type(event).__name__, _job_id(event)) for event in await self.poll()]

    async def pin(self, job_id: JobId, name: str, *gpu_indices: int) -> None:
        shape = Shape(node_count=1, gpus_per_node=len(gpu_indices))
        await self.slurm.pin(job_id, Placement((NodeName(name),), gpu_indices, shape, Tier.NODE))


def _job_id(event: Event) -> str:
    match event:
        case JobQueued() | JobChanged():
            return event.job.job_id
        case JobWithdrawn() | JobStarted() | JobEnded():
            return event.job_id
        case _:
            raise AssertionError(f"{event} is not about a job")
