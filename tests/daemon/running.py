"""A daemon in the test's own event loop, on an in-memory Slurm."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
from prometheus_client import CollectorRegistry

from roost_engine.domain.model import JobId
from roost_proto.v1 import operator_pb2_grpc, telemetry_pb2_grpc
from roost_slurm.hooks import spool
from roostd.app.daemon import Daemon
from roostd.config.config import Config
from roostd.testing.slurm_stand_in import SlurmStandIn

PATIENCE_S = 60.0  # what does not come at all is noticed; the machine may be busy


def config(folder: Path, **settings: Any) -> Config:
    """Enforce everywhere, ports of the kernel's choice, folders under `folder`."""
    return Config.model_validate(
        {
            "mode": "enforce",
            "listen": {"probes": "127.0.0.1:0"},
            "paths": {"runtime_dir": str(folder / "run"), "state_dir": str(folder / "state")},
            "policy": {"model": "none"},
            "slurm": {"poll_interval_s": 0.2, "lease_s": 60.0},
        }
        | settings
    )


class Running:
    """A daemon that runs, and ways to wait for what it does."""

    def __init__(self, daemon: Daemon, slurm: SlurmStandIn, config: Config) -> None:
        self.daemon, self.slurm, self.config = daemon, slurm, config

    def count(self, name: str, **labels: str) -> float:
        return self.daemon.metrics.registry.get_sample_value(name, labels) or 0.0

    async def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait for something that the daemon's tasks bring about."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not done():  # noqa: ASYNC110  nothing tells of a change in another task
                    await asyncio.sleep(0.005)
        except TimeoutError as error:
            raise AssertionError(f"waited {PATIENCE_S:g} s in vain: {what}") from error

    async def until_running(self, *job_ids: JobId) -> None:
        """Until Slurm runs these jobs and the daemon has heard of it."""

        def all_run() -> bool:
            records = dict(self.daemon.state.engine.known_jobs())
            return all(
                job_id in records and records[job_id].state == "running" for job_id in job_ids
            )

        await self.until(all_run, f"{job_ids} run")

    def places(self) -> set[JobId]:
        """Jobs whose place is chosen, carried out or not."""
        records = self.daemon.state.engine.records()
        return {job_id for job_id, record in records if record.placement is not None}

    def planned(self, job_id: JobId) -> dict[str, tuple[int, ...]]:
        placement = self.daemon.state.engine.record(job_id).placement
        return dict.fromkeys(placement.nodes, placement.gpu_indices) if placement else {}

    async def allocated(self, job_id: JobId) -> dict[str, tuple[int, ...]]:
        return {share.node: share.gpu_indices for share in await self.slurm.allocation(job_id)}

    @contextlib.asynccontextmanager
    async def operator(self) -> AsyncIterator["operator_pb2_grpc.OperatorAsyncStub"]:
        async with grpc.aio.insecure_channel(f"unix:{self.config.operator_socket}") as channel:
            yield operator_pb2_grpc.OperatorStub(channel)

    @contextlib.asynccontextmanager
    async def telemetry(self) -> AsyncIterator["telemetry_pb2_grpc.TelemetryAsyncStub"]:
        address = f"127.0.0.1:{self.daemon.parts.servers.probe_port}"
        async with grpc.aio.insecure_channel(address) as channel:
            yield telemetry_pb2_grpc.TelemetryStub(channel)


@contextlib.asynccontextmanager
async def running(
    slurm: SlurmStandIn, config: Config, reload: Callable[[], Config] | None = None
) -> AsyncIterator[Running]:
    """Start a daemon, and stop it in the end as SIGTERM would."""
    daemon = Daemon(
        config,
        reload or (lambda: config),
        slurm=slurm,
        environ={},
        registry=CollectorRegistry(),
        handles_signals=False,
    )
    spool_file = config.paths.runtime_dir / "spool" / "events"

    def tell(event: spool.SpoolEvent) -> None:
        with contextlib.suppress(FileNotFoundError):
            spool.append(spool_file, event)

    slurm.listeners.append(tell)
    task = asyncio.create_task(daemon.run())
    started = asyncio.create_task(daemon.started.wait())
    try:
        await asyncio.wait({task, started}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_S)
        if task.done():
            await task
        yield Running(daemon, slurm, config)
    finally:
        started.cancel()
        slurm.listeners.remove(tell)
        daemon.stop()
        await asyncio.wait_for(task, PATIENCE_S)
