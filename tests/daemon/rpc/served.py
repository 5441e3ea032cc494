"""Real gRPC servers on a state without Slurm, in the test's own event loop."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from roost_engine.domain.actions import Action
from roost_engine.domain.events import Event
from roost_engine.domain.model import NodeName
from roost_proto.v1 import operator_pb2_grpc, placement_pb2_grpc, telemetry_pb2_grpc
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.ops.metrics import Metrics
from roostd.rpc.server import Servers
from roostd.state import DaemonState


@dataclass
class ManualClock:
    """Engine time that moves when told."""

    at_s: float = 100.0

    def now_s(self) -> float:
        return self.at_s

    def to_engine_s(self, epoch_s: float) -> float:
        return epoch_s

    def follow_wall(self) -> float:
        return 0.0

    def to_epoch_s(self, engine_s: float) -> float:
        return engine_s


@dataclass
class Served:
    """A state and the addresses of the servers that answer from it."""

    state: DaemonState
    metrics: Metrics
    clock: ManualClock
    socket: Path
    servers: Servers
    emitted: list[Event] = field(default_factory=list)
    channels: list[grpc.aio.Channel] = field(default_factory=list)

    def probe_channel(self) -> grpc.aio.Channel:
        return self._channel(f"127.0.0.1:{self.servers.probe_port}")

    def operator_channel(self) -> grpc.aio.Channel:
        return self._channel(f"unix:{self.socket}")

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = grpc.aio.insecure_channel(
            address, [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        )
        self.channels.append(channel)
        return channel

    def telemetry(self) -> "telemetry_pb2_grpc.TelemetryAsyncStub":
        return telemetry_pb2_grpc.TelemetryStub(self.probe_channel())

    def placement(self) -> "placement_pb2_grpc.PlacementAsyncStub":
        return placement_pb2_grpc.PlacementStub(self.probe_channel())

    def operator(self) -> "operator_pb2_grpc.OperatorAsyncStub":
        return operator_pb2_grpc.OperatorStub(self.operator_channel())

    async def until_sequence(self, node: str, sequence: int) -> pb.Sample:
        """The newest sample of a node once it is that one or later; samples get no answer."""
        async with asyncio.timeout(60):
            while True:
                report = self.state.board.report(NodeName(node))
                if report and report.sample and report.sample.sequence >= sequence:
                    return report.sample
                await asyncio.sleep(0.005)

    async def until_streams(self, count: int) -> None:
        """Until that many probe streams are open."""
        async with asyncio.timeout(60):
            while True:
                if self.count("roost_probe_streams") == count:
                    return
                await asyncio.sleep(0.005)

    def feed(self, *events: Event) -> tuple[Action, ...]:
        return sum((self.state.engine.step(event) for event in events), ())

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0
