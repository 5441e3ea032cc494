"""A fake roostd that records what probes send, for tests of the probe."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeAlias

import grpc

from roost_proto.v1 import placement_pb2, placement_pb2_grpc, telemetry_pb2, telemetry_pb2_grpc

Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


class FakeDaemon(telemetry_pb2_grpc.TelemetryServicer, placement_pb2_grpc.PlacementServicer):
    """Accepts streams, records every message, and answers hooks from a table.

    Args:
        plans: by Slurm job id; a job that is not in the table is unmanaged.
        sample_interval_s: the interval that it asks probes for.

    Attributes:
        messages: everything received, oldest first, over all streams and restarts.
        reports: allocations that were reported.
    """

    def __init__(
        self,
        plans: Mapping[int, placement_pb2.Plan] | None = None,
        sample_interval_s: float = 0.0,
    ) -> None:
        self._plans = dict(plans or {})
        self._sample_interval_s = sample_interval_s
        self._server: grpc.aio.Server | None = None
        self._arrived = asyncio.Condition()
        self._outgoing = set[asyncio.Queue[telemetry_pb2.DaemonMessage]]()
        self.messages = list[telemetry_pb2.ProbeMessage]()
        self.reports = list[placement_pb2.AllocationReport]()
        self.progress = list[placement_pb2.ProgressReport]()
        self.plan_delay_s = 0.0
        self.port = 0

    @property
    def target(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self.port}"

    @property
    def hellos(self) -> list[telemetry_pb2.Hello]:
        """The Hellos received so far."""
        return [m.hello for m in self.messages if m.HasField("hello")]

    @property
    def samples(self) -> list[telemetry_pb2.Sample]:
        """The samples received so far."""
        return [m.sample for m in self.messages if m.HasField("sample")]

    async def start(self) -> None:
        """Listen: on any free port at first, on the same one after a `stop`."""
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        telemetry_pb2_grpc.add_TelemetryServicer_to_server(self, server)
        placement_pb2_grpc.add_PlacementServicer_to_server(self, server)
        self.port = server.add_insecure_port(f"127.0.0.1:{self.port}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Break every stream off, as a daemon that is killed does."""
        if self._server is not None:
            await self._server.stop(grace=None)
            self._server = None

    async def resync(self, reason: str) -> None:
        """Ask every probe for a new Hello."""
        for queue in self._outgoing:
            message = telemetry_pb2.DaemonMessage(resync=telemetry_pb2.Resync(reason=reason))
            await queue.put(message)

    async def received(self, hello_count: int = 0, sample_count: int = 0) -> None:
        """Wait until that many Hellos and samples have come in all."""
        async with self._arrived:
            await self._arrived.wait_for(
                lambda: len(self.hellos) >= hello_count and len(self.samples) >= sample_count
            )

    async def Stream(  # the name of the RPC
        self, request_iterator: AsyncIterator[telemetry_pb2.ProbeMessage], context: Context
    ) -> AsyncIterator[telemetry_pb2.DaemonMessage]:
        """Telemetry.Stream: record what comes, send Welcome and what `resync` queued."""
        queue = asyncio.Queue[telemetry_pb2.DaemonMessage]()
        self._outgoing.add(queue)
        reader = asyncio.create_task(self._record(request_iterator, queue))
        try:
            while True:
                yield await queue.get()
        finally:
            self._outgoing.discard(queue)
            reader.cancel()

    async def GetPlan(
        self, request: placement_pb2.GetPlanRequest, context: Context
    ) -> placement_pb2.Plan:
        """Placement.GetPlan from the table, after `plan_delay_s`."""
        await asyncio.sleep(self.plan_delay_s)
        return self._plans.get(request.slurm_job_id, placement_pb2.Plan())

    async def Progress(
        self, request: placement_pb2.ProgressReport, context: Context
    ) -> placement_pb2.ProgressAck:
        """Placement.Progress: accept it."""
        self.progress.append(request)
        return placement_pb2.ProgressAck(accepted=True)

    async def ReportAllocation(
        self, request: placement_pb2.AllocationReport, context: Context
    ) -> placement_pb2.AllocationAck:
        """Placement.ReportAllocation: compare with the table."""
        self.reports.append(request)
        plan = self._plans.get(request.slurm_job_id)
        planned = plan is not None and list(plan.gpu_indices) == list(request.gpu_indices)
        return placement_pb2.AllocationAck(as_planned=planned)

    async def _record(
        self,
        incoming: AsyncIterator[telemetry_pb2.ProbeMessage],
        outgoing: asyncio.Queue[telemetry_pb2.DaemonMessage],
    ) -> None:
        async for message in incoming:
            if message.HasField("hello"):
                welcome = telemetry_pb2.Welcome(
                    daemon_version="fake", sample_interval_s=self._sample_interval_s
                )
                await outgoing.put(telemetry_pb2.DaemonMessage(welcome=welcome))
            async with self._arrived:
                self.messages.append(message)
                self._arrived.notify_all()
