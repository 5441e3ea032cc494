"""The node's state over time: topology, read seldom, and load, read every second."""

import dataclasses
import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from roost_probe.driver.readings import DriverFacts, DriverLoad, JobMemory
from roost_probe.errors import DriverFault
from roost_probe.node.nic_counters import NicCounters
from roost_probe.node.process_watch import ProcessWatch
from roost_probe.node.sampler import Sampler, silent_sample
from roost_probe.node.topology import Topology
from roost_proto.v1 import telemetry_pb2

log = logging.getLogger(__name__)

NOTHING_KNOWN = DriverFacts()


class Driver(Protocol):
    """The driver as the monitor asks it; NvmlProcess implements it."""

    async def facts(self) -> DriverFacts:
        """Read what does not change. Raises DriverFault."""

    async def load(self) -> DriverLoad:
        """Read what changes. Raises DriverFault."""

    async def jobs(self, gpus: Collection[int]) -> JobMemory:
        """Read what Slurm jobs use of the memory of some GPUs. Raises DriverFault."""

    async def close(self) -> None:
        """Close the driver."""


class Monitor:
    """Reads one node again and again; keeps its topology, its fault and its counters.

    Args:
        driver: answers or raises DriverFault; the monitor asks again in its next step.
        sysfs_root: where sysfs is mounted.
        facts_interval_s: how often to look whether GPUs, MIG or NICs changed.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        driver: Driver,
        sysfs_root: Path = Path("/sys"),
        facts_interval_s: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._driver, self._sysfs_root = driver, sysfs_root
        self._facts_interval_s, self._clock = facts_interval_s, clock
        self._facts = NOTHING_KNOWN
        self._facts_due_s = clock()
        self._lost_mask = 0
        self._sampler, self._nic_counters = Sampler(), NicCounters()
        self.processes = ProcessWatch()
        self.topology = Topology.of(NOTHING_KNOWN, sysfs_root)
        self.fault: str | None = None
        # Counts changes of topology and fault; the agent sends a new Hello when it has grown.
        self.revision = 0
        # Counts repairs: a lost GPU answers again, so its old faults no longer apply.
        self.repair_count = 0

    @property
    def problems(self) -> tuple[str, ...]:
        """Return what keeps the monitor from reading the driver, in words for an operator."""
        return (self.fault,) if self.fault is not None else ()

    def refresh(self) -> None:
        """Read the topology again in the next step."""
        self._facts_due_s = self._clock()

    async def close(self) -> None:
        """Close the driver."""
        await self._driver.close()

    async def step(self) -> telemetry_pb2.Sample:
        """Read the driver once and return a sample; after a driver fault it has no values."""
        try:
            if self._clock() >= self._facts_due_s:
                await self._read_facts()
            load = await self._driver.load()
        except DriverFault as fault:
            self._note(str(fault))
            self.refresh()  # the driver may have other GPUs when it answers again
            return silent_sample(len(self.topology.gpus))
        self._note(None)
        sample = self._sampler.sample(load)
        if sample.gpu_count != len(self.topology.gpus):
            self.refresh()
            return silent_sample(len(self.topology.gpus))  # a sample must match its Hello
        self._compare_lost(sample.lost_mask)
        self._compare_mig(load)
        self._nic_counters.add_to(sample, self.topology.nics, self._clock())
        await self._read_processes(sample.gpu_count)
        self.processes.add_to(sample)
        return sample

    async def _read_processes(self, gpu_count: int) -> None:
        asked = self.processes.due(gpu_count, self._clock())
        if not asked:
            return
        try:
            self.processes.note(asked, await self._driver.jobs(asked))
        except DriverFault as fault:
            log.warning("processes are not read for an hour: %s", fault)
            self.processes.pause(self._clock())

    async def _read_facts(self) -> None:
        facts = _remember(self._facts, await self._driver.facts())
        topology = Topology.of(facts, self._sysfs_root)
        self._facts, self._facts_due_s = facts, self._clock() + self._facts_interval_s
        if topology != self.topology:
            self.topology = topology
            self.revision += 1
            log.info("topology read: %d GPUs, %d NICs", len(topology.gpus), len(topology.nics))
            for problem in topology.problems:
                log.warning("%s", problem)

    def _compare_lost(self, lost_mask: int) -> None:
        if lost_mask == self._lost_mask:
            return
        if self._lost_mask & ~lost_mask:
            self.repair_count += 1
            self.revision += 1
        self._lost_mask = lost_mask
        self.refresh()

    def _compare_mig(self, load: DriverLoad) -> None:
        """Read the facts again if a GPU was switched to MIG mode or back: then it takes no jobs."""
        pairs = zip(load.gpus, self._facts.gpus, strict=False)
        if any(now.mig_enabled not in (None, known.mig_enabled) for now, known in pairs):
            self.refresh()

    def _note(self, fault: str | None) -> None:
        if fault == self.fault:
            return
        self.fault = fault
        self.revision += 1
        if fault is None:
            log.info("the driver answers")
        else:
            log.error("%s", fault)


def _remember(last: DriverFacts, now: DriverFacts) -> DriverFacts:
    """Keep what was known about GPUs that are lost now: they keep their place and name."""
    if len(last.gpus) != len(now.gpus):
        return now
    gpus = tuple(gpu if gpu.uuid else known for gpu, known in zip(now.gpus, last.gpus, strict=True))
    return dataclasses.replace(now, gpus=gpus)
