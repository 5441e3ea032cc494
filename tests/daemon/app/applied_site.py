"""An applier on an in-memory Slurm, for the tests of the applier and of its parts."""

import asyncio
from typing import Any

from prometheus_client import CollectorRegistry
from tests.daemon.app.parts import Parts, no_disk

from roost_engine.domain.actions import (
    Place,
)
from roost_engine.domain.events import (
    JobQueued,
)
from roost_engine.domain.model import JobId
from roost_engine.testing.builders import job, node
from roostd.app.actions.applier import Applier
from roostd.app.decision.recorder import Recorder
from roostd.ops.metrics import Metrics
from roostd.slurm.port import SlurmPort
from roostd.testing.slurm_stand_in import SlurmStandIn

NOW_S = 1_000_000.0
NODES = ("n1", "n2")


class Site:
    """An applier on an in-memory Slurm with nodes n1 and n2 of 8 GPUs; wall clock at NOW_S."""

    def __init__(self, recorder: Recorder | None = None, **settings: Any) -> None:
        self.slurm = SlurmStandIn([node("n1"), node("n2")], now=lambda: NOW_S)
        self.parts = Parts("n1", "n2", **settings)
        self.metrics = Metrics(CollectorRegistry())
        self.look_count = self.node_look_count = 0
        self.use(self.slurm, recorder or no_disk())

    def use(self, slurm: SlurmPort, recorder: Recorder) -> None:
        parts = self.parts
        self.applier = Applier(
            slurm,
            parts.state,
            recorder,
            self.metrics,
            parts.emitted.append,
            self._look,
            self._look_at_nodes,
            4,
        )

    def _look(self, job_id: JobId | None) -> None:
        self.look_count += 1

    def _look_at_nodes(self) -> None:
        self.node_look_count += 1

    def submit(self, *, gpus: int = 2, binding: bool = True) -> tuple[JobId, Place]:
        """Submit a job that the engine places at once; returns the engine's action."""
        (job_id,) = self.slurm.submit(gpus_per_node=gpus)
        spec = job(job_id, gpus=gpus, binding=binding)
        actions = self.parts.state.engine.step(JobQueued(at_s=100.0, job=spec))
        (place,) = (action for action in actions if isinstance(action, Place))
        return job_id, place

    def wait_in_line(self) -> JobId:
        """Submit a job that the engine cannot place."""
        (job_id,) = self.slurm.submit(gpus_per_node=8)
        engine = self.parts.state.engine
        engine.step(JobQueued(at_s=100.0, job=job(job_id, gpus=8, nodes=3)))
        return job_id

    def fill(self, name: str) -> None:
        """Have a job that Roost does not know of run on all GPUs of a node."""
        self.slurm.lease_s = None
        self.slurm.submit(gpus_per_node=8, node_list=name)
        self.slurm.lease_s = 60

    async def done(self) -> None:
        """Until all that was submitted is carried out."""
        async with asyncio.timeout(60):
            while not self.applier.is_idle or self.applier._tasks:  # noqa: ASYNC110
                await asyncio.sleep(0)

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"roost_{name}_total", labels) or 0.0

    async def gpus(self, job_id: JobId) -> dict[str, tuple[int, ...]]:
        return {share.node: share.gpu_indices for share in await self.slurm.allocation(job_id)}
