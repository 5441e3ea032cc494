"""The Telemetry service: one stream for each node; the newest sample replaces older ones."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, Self

import grpc
import structlog

from roost_engine.domain.errors import ProbeError
from roost_proto.v1 import telemetry_pb2 as pb
from roost_proto.v1 import telemetry_pb2_grpc as pb_grpc
from roostd.config.config import Config
from roostd.ops.metrics import Metrics
from roostd.rpc.access.auth import may_speak_for, node_names
from roostd.rpc.access.certificates import Revocations
from roostd.rpc.access.limits import (
    BAD_MESSAGE_LIMIT,
    CHECKED_EVERY,
    FIRST_MESSAGE_S,
    MOST_SILENT_STREAMS,
    SILENT_STREAM_S,
    RateLimit,
)
from roostd.rpc.access.peers import Peers, host_of
from roostd.rpc.errors import Context, Undecodable
from roostd.rpc.services.gathered_reads import GatheredReads, Read
from roostd.telemetry.board import NodeReport, ProbeBoard
from roostd.telemetry.claim import Claim
from roostd.telemetry.probe_messages import (
    ProbeHello,
    check_sample,
    check_shape,
    check_values,
    read_hello,
)

_log = structlog.get_logger(__name__)


class Intervals(NamedTuple):
    """What the daemon wants of probes.

    Attributes:
        sample_s: seconds from one sample to the next.
        process_s: from one list of the processes on shared GPUs to the next; 0: none is wanted.
            They are wanted where jobs may share GPUs, and of a node with memory of no job.
    """

    sample_s: float
    process_s: float

    @classmethod
    def of(cls, config: Config, has_foreign_memory: bool) -> Self:
        """Return what a configuration asks for of a node with or without memory of no job."""
        telemetry, lists = config.telemetry, config.sharing.enabled or has_foreign_memory
        return cls(telemetry.sample_interval_s, telemetry.process_interval_s if lists else 0.0)


@dataclass(slots=True)
class _Stream:
    """One probe's call."""

    context: Context
    limit: RateLimit
    host: str
    report: NodeReport | None = None
    next_sequence: int | None = None  # None: any number
    awaits_hello: bool = True
    bad_count: int = 0
    intervals: Intervals | None = None  # that the probe was told
    list_version: int = -1  # of revoked certificates, with which the caller was compared


class TelemetryService(pb_grpc.TelemetryServicer):
    """Checks the probes' messages and stores their reports.

    Args:
        board: stores the reports.
        metrics: counts the messages.
        version: of this daemon.
        config: returns the one in effect; a reload may change the intervals, and probes are told.
        max_stream_count: further streams are refused.
        revocations: certificates that are no longer believed.
    """

    def __init__(
        self,
        board: ProbeBoard,
        metrics: Metrics,
        version: str,
        config: Callable[[], Config],
        max_stream_count: int,
        revocations: Revocations,
    ) -> None:
        self._board, self._metrics, self._version = board, metrics, version
        self._config, self._max_stream_count = config, max_stream_count
        self._peers, self._revocations = Peers(), revocations
        self._stream_count, self._reads = 0, GatheredReads(self._take)
        self._config_of_intervals: Config | None = None
        self._plain = self._with_lists = Intervals(0.0, 0.0)

    async def Stream(  # type: ignore[override]  # a coroutine may write its replies itself
        self, request_iterator: AsyncIterator[pb.ProbeMessage], context: Context
    ) -> None:
        """See telemetry.proto."""
        if self._stream_count >= self._max_stream_count:
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{self._max_stream_count} probes are connected; raise listen.max_node_count",
            )
        # Five times the rate that the daemon asked for is a broken probe, not jitter.
        limit = RateLimit(5.0 / self._sample_interval_s(), 30.0)
        stream = _Stream(context, limit, host_of(context.peer()))
        if not self._peers.admit_silent_stream(stream.host):
            self._metrics.samples_rejected.labels("streams").inc()
            await context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"{MOST_SILENT_STREAMS} streams of this host have not said Hello; try again",
            )
        self._stream_count += 1
        self._metrics.streams.set(self._stream_count)
        try:
            await self._serve(stream)
        finally:
            self._stream_count -= 1
            self._metrics.streams.set(self._stream_count)
            if stream.report is None:
                self._peers.end_silence(stream.host)
            else:
                if stream.report.stream is stream:  # else another probe has taken its place
                    self._log(stream, "probe_lost", node=stream.report.hello.node)
                self._board.leave(stream.report.hello.node, stream)

    async def _serve(self, stream: _Stream) -> None:
        """Answer messages until the probe closes the stream, or says nothing for long."""
        context, read = stream.context, Read(self._reads, stream.context, stream)
        patience_s = FIRST_MESSAGE_S
        try:
            async with asyncio.timeout(patience_s):
                message = await context.read()
            while message is not grpc.aio.EOF:
                reply = await self._handle(message, stream)
                if reply is not None:
                    await context.write(reply)
                if stream.report is not None:
                    patience_s = SILENT_STREAM_S
                message = await read.next(patience_s)
        except TimeoutError:
            await context.abort(
                grpc.StatusCode.DEADLINE_EXCEEDED, f"nothing said for {patience_s:g} s"
            )
        finally:
            read.close()

    def _take(self, stream: _Stream, message: Any) -> bool:
        """Apply a sample that is as it should be; return False for anything else."""
        report, revocations = stream.report, self._revocations
        if (
            report is None
            or report.stream is not stream
            or stream.awaits_hello
            or not isinstance(message, pb.ProbeMessage)
            or message.WhichOneof("body") != "sample"
        ):
            return False
        revocations.refresh()
        sample, wanted = message.sample, stream.next_sequence
        sequence = sample.sequence
        if stream.list_version != revocations.version or wanted not in (None, sequence):
            return False
        if stream.intervals != self._intervals(report):
            return False
        is_checked = report.is_suspect or wanted is None or not sequence % CHECKED_EVERY
        try:
            check_shape(sample, report.hello)
            if is_checked:
                check_values(sample, report.hello)
        except ProbeError:
            return False
        if not stream.limit.admit(time.monotonic()):
            return False
        self._store(sample, stream, report, is_checked=is_checked)
        return True

    async def _handle(
        self, message: pb.ProbeMessage | Undecodable, stream: _Stream
    ) -> pb.DaemonMessage | None:
        if isinstance(message, Undecodable):
            self._metrics.samples_rejected.labels("undecodable").inc()
            await stream.context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, "not a roost_proto.v1.ProbeMessage"
            )
        if not stream.limit.admit(time.monotonic()):
            self._metrics.samples_rejected.labels("rate").inc()
            await stream.context.abort(
                grpc.StatusCode.RESOURCE_EXHAUSTED,
                f"too many messages; want one every {self._sample_interval_s():g} s",
            )
        self._revocations.refresh()
        if stream.list_version != self._revocations.version:
            await self._check_certificate(stream)
        body = message.WhichOneof("body")
        if body == "sample" and stream.report is not None:
            return await self._apply_sample(message.sample, stream, stream.report)
        if body == "hello":
            return await self._apply_hello(message.hello, stream)
        if body is None:
            # A newer probe may send messages that this daemon does not know.
            return None
        return await stream.context.abort(
            grpc.StatusCode.FAILED_PRECONDITION, "the first message must be a Hello"
        )

    async def _check_certificate(self, stream: _Stream) -> None:
        """End a stream whose certificate was revoked since the last message."""
        stream.list_version = self._revocations.version
        if self._revocations.is_revoked(stream.context):
            node = "" if stream.report is None else str(stream.report.hello.node)
            self._log(stream, "probe_revoked", node=node)
            why = "this certificate is revoked; give the probe a new one"
            await self._refuse(stream, "revoked", grpc.StatusCode.PERMISSION_DENIED, why)

    async def _apply_hello(self, message: pb.Hello, stream: _Stream) -> pb.DaemonMessage:
        if not self._peers.admit_hello(stream.host):
            await self._refuse(
                stream, "hello_rate", grpc.StatusCode.RESOURCE_EXHAUSTED, "too many Hellos"
            )
        try:
            hello = read_hello(message)
        except ProbeError as error:
            self._log(stream, "hello_rejected", node=message.node, error=str(error))
            await self._refuse(stream, "hello", grpc.StatusCode.INVALID_ARGUMENT, str(error))
        claim = Claim(
            has_certificate=node_names(stream.context) is not None,
            gpu_uuids=frozenset(hello.gpu_uuids),
            host=stream.host,
        )
        await self._check_right(hello, claim, stream)
        other = self._board.report(hello.node)
        if other is not None and other.stream not in (None, stream):
            self._log(stream, "probe_replaced", node=hello.node)
        if stream.report is None:
            self._peers.end_silence(stream.host)
            left_out_count = self._peers.admit_line(stream.host)
            if left_out_count is not None:
                _log.info(
                    "probe_connected",
                    node=hello.node,
                    gpu_count=len(hello.gpus),
                    version=hello.probe_version,
                    left_out_count=left_out_count or None,
                )
        stream.report = self._board.apply_hello(hello, stream, claim)
        stream.awaits_hello, stream.next_sequence = False, None
        return self._welcome(stream, stream.report)

    def _sample_interval_s(self) -> float:
        return self._config().telemetry.sample_interval_s

    def _intervals(self, report: NodeReport) -> Intervals:
        config = self._config()
        if config is not self._config_of_intervals:  # compared for each sample
            self._config_of_intervals = config
            self._plain, self._with_lists = (Intervals.of(config, lists) for lists in (False, True))
        return self._with_lists if report.has_foreign_memory else self._plain

    def _welcome(self, stream: _Stream, report: NodeReport) -> pb.DaemonMessage:
        stream.intervals = self._intervals(report)
        return pb.DaemonMessage(
            welcome=pb.Welcome(
                daemon_version=self._version,
                sample_interval_s=stream.intervals.sample_s,
                process_interval_s=stream.intervals.process_s,
            )
        )

    async def _check_right(self, hello: ProbeHello, claim: Claim, stream: _Stream) -> None:
        """End a stream that may not report for the node that it names."""
        node, codes = hello.node, grpc.StatusCode
        if not may_speak_for(stream.context, node):
            self._log(stream, "probe_impostor", node=node)
            why = f"the certificate does not name {node} as subject alternative name"
            await self._refuse(stream, "impostor", codes.PERMISSION_DENIED, why)
        if stream.report is not None and stream.report.hello.node != node:
            why = f"this stream spoke for {stream.report.hello.node} before"
            await self._refuse(stream, "hello", codes.INVALID_ARGUMENT, why)
        if not self._board.knows_nodes():
            why = "Slurm has not named a node with GPUs yet; try again"
            await self._refuse(stream, "no_nodes", codes.UNAVAILABLE, why)
        if not self._board.is_named(node):
            self._log(stream, "probe_unknown", node=node)
            why = f"Slurm has no node {node} with GPUs; give Slurm's NodeName as --node"
            await self._refuse(stream, "unknown_node", codes.NOT_FOUND, why)
        if not self._board.may_report(claim, node, stream, 3 * self._sample_interval_s()):
            self._log(stream, "probe_twin", node=node)
            why = f"another probe speaks for {node}; stop one, or give it its own --node"
            await self._refuse(stream, "twin", codes.ALREADY_EXISTS, why)

    async def _refuse(
        self, stream: _Stream, reason: str, code: grpc.StatusCode, why: str
    ) -> NoReturn:
        self._metrics.samples_rejected.labels(reason).inc()
        await stream.context.abort(code, why)

    def _log(self, stream: _Stream, event: str, **facts: str) -> None:
        """Log an event of a host, within the host's rate limit for log lines."""
        left_out_count = self._peers.admit_line(stream.host)
        if left_out_count is not None:
            peer = stream.context.peer()
            _log.warning(event, **facts, peer=peer, left_out_count=left_out_count or None)

    async def _apply_sample(
        self, sample: pb.Sample, stream: _Stream, report: NodeReport
    ) -> pb.DaemonMessage | None:
        if report.stream is not stream:
            await stream.context.abort(
                grpc.StatusCode.ABORTED, f"a newer probe speaks for {report.hello.node}"
            )
        if stream.awaits_hello:
            return None
        if stream.next_sequence not in (None, sample.sequence):
            return self._resync(
                stream, f"want sample {stream.next_sequence}, got {sample.sequence}"
            )
        stream.next_sequence = sample.sequence + 1
        try:
            check_sample(sample, report.hello)
        except ProbeError as error:
            return await self._reject(error, stream, report)
        self._store(sample, stream, report, is_checked=True)
        return (
            None if stream.intervals == self._intervals(report) else self._welcome(stream, report)
        )

    def _store(
        self, sample: pb.Sample, stream: _Stream, report: NodeReport, *, is_checked: bool
    ) -> None:
        stream.next_sequence, stream.bad_count = sample.sequence + 1, 0
        self._metrics.samples.inc()
        self._board.apply_sample(report, sample, is_checked=is_checked)

    async def _reject(
        self, error: ProbeError, stream: _Stream, report: NodeReport
    ) -> pb.DaemonMessage | None:
        """Discard a sample, and log the first of several in a row."""
        report.is_suspect = True
        self._metrics.samples_rejected.labels(error.quantity).inc()
        stream.bad_count += 1
        if stream.bad_count == 1:
            self._log(stream, "sample_rejected", node=report.hello.node, error=str(error))
        if stream.bad_count >= BAD_MESSAGE_LIMIT:
            await stream.context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if error.quantity == "gpu_count":
            return self._resync(stream, str(error))
        return None

    def _resync(self, stream: _Stream, reason: str) -> pb.DaemonMessage:
        stream.awaits_hello = True
        self._metrics.resyncs.inc()
        return pb.DaemonMessage(resync=pb.Resync(reason=reason))
