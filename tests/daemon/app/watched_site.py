"""A watch of Slurm on an in-memory cluster, for the tests of the watch and of its parts."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from tests.daemon.app.parts import Parts

from roost_engine.domain.model import JobId
from roost_engine.testing.builders import node
from roostd.app.polls.slurm_watch import SlurmWatch
from roostd.ops.metrics import Metrics
from roostd.testing.slurm_stand_in import SlurmStandIn


class Site:
    """A watch on an in-memory Slurm of one node with 8 GPUs."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.slurm, self.now_s = SlurmStandIn([node("n1")], now=lambda: self.now_s), 1_000.0
        self.parts = Parts(**settings)
        self.state = self.parts.state
        self.metrics = Metrics(CollectorRegistry())
        self.released: list[list[JobId]] = []
        self.has_news = asyncio.Event()
        self._folder = folder
        self.watch = self.watching(self.slurm)

    def watching(self, slurm: SlurmStandIn) -> SlurmWatch:
        return SlurmWatch(slurm, self.state, self.metrics, self._emit, self._release, self._folder)

    def _emit(self, event: Any) -> None:
        self.parts.emitted.append(event)
        self.state.engine.step(event)
        self.has_news.set()

    def _release(self, job_ids: Sequence[JobId]) -> None:
        self.released.append(list(job_ids))

    async def look(self) -> list[str]:
        """Look once; the types of the events that follow."""
        before = len(self.parts.emitted)
        await self.watch.first_poll()
        return [type(event).__name__ for event in self.parts.emitted[before:]]
