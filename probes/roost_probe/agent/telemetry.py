"""The stream to roostd: a Hello, then samples, again and again."""

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

import grpc

from roost_probe.agent.daemon_link import DaemonAddress
from roost_probe.backoff import Backoff
from roost_probe.errors import SettingsError
from roost_proto.v1 import telemetry_pb2, telemetry_pb2_grpc

if TYPE_CHECKING:
    Call: TypeAlias = grpc.aio.StreamStreamCall[
        telemetry_pb2.ProbeMessage, telemetry_pb2.DaemonMessage
    ]

log = logging.getLogger(__name__)

MOST_WAITING_XIDS = 256


class Outbox:
    """What waits to be sent: a Hello that is due, and the newest sample, which replaces older."""

    def __init__(self) -> None:
        self._sample: telemetry_pb2.Sample | None = None
        self._hello_due = False
        self._filled = asyncio.Event()

    def put_sample(self, sample: telemetry_pb2.Sample) -> None:
        """Replace the waiting sample. Its XID events are carried over: each is reported once."""
        if self._sample is not None:
            events = [*self._sample.xid_events, *sample.xid_events][-MOST_WAITING_XIDS:]
            del sample.xid_events[:]
            sample.xid_events.extend(events)
        self._sample = sample
        self._filled.set()

    def put_hello(self) -> None:
        """Ask for a Hello before the next sample."""
        self._hello_due = True
        self._filled.set()

    async def take(self) -> telemetry_pb2.Sample | None:
        """Wait for a message to send; None: send a Hello with the current state."""
        await self._filled.wait()
        if self._hello_due:
            self._hello_due = False
            if self._sample is None:
                self._filled.clear()
            return None
        sample, self._sample = self._sample, None
        self._filled.clear()
        return sample


class TelemetryStream:
    """Keeps one stream to roostd open, whatever happens to roostd.

    Args:
        address: the daemon.
        outbox: what to send.
        build_hello: returns a Hello with the current state.
        on_welcome: called when the daemon accepts the stream.
        rng: for the back-off.
    """

    def __init__(
        self,
        address: DaemonAddress,
        outbox: Outbox,
        build_hello: Callable[[], telemetry_pb2.Hello],
        on_welcome: Callable[[telemetry_pb2.Welcome], None],
        rng: random.Random,
    ) -> None:
        self._address, self._outbox = address, outbox
        self._build_hello, self._on_welcome = build_hello, on_welcome
        self._backoff = Backoff(0.5, 30.0, rng)
        self._session_id, self._sequence = "", 0
        self._reconnect = asyncio.Event()
        self._last_failure = ""
        self.is_connected = False

    def reconnect(self) -> None:
        """Close the stream and open it again, with certificates read again."""
        self._reconnect.set()

    async def run(self) -> None:
        """Connect, send, and connect again; ends only when cancelled."""
        while True:
            self._reconnect.clear()
            try:
                failure = await self._session()
            except SettingsError as error:  # certificates are being replaced
                failure = str(error)
            if self._reconnect.is_set():
                continue
            if failure != self._last_failure:
                log.warning("no stream to %s: %s; trying again", self._address.target, failure)
                self._last_failure = failure
            await asyncio.sleep(self._backoff.next_s())

    async def _session(self) -> str:
        """Run one connection, from Hello to its end. Returns why it ended."""
        async with self._address.open_channel() as channel:
            call = telemetry_pb2_grpc.TelemetryStub(channel).Stream()
            self._outbox.put_hello()
            tasks: list[asyncio.Task[object]] = [
                asyncio.create_task(self._send(call)),
                asyncio.create_task(self._receive(call)),
                asyncio.create_task(self._reconnect.wait()),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.is_connected = False
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                call.cancel()
        return _why(ended)

    async def _send(self, call: "Call") -> None:
        while True:
            sample = await self._outbox.take()
            if sample is None:
                await call.write(self._hello())
            else:
                self._sequence += 1
                sample.sequence = self._sequence
                await call.write(telemetry_pb2.ProbeMessage(sample=sample))

    def _hello(self) -> telemetry_pb2.ProbeMessage:
        hello = self._build_hello()
        if hello.session_id != self._session_id:
            self._session_id, self._sequence = hello.session_id, 0
        return telemetry_pb2.ProbeMessage(hello=hello)

    async def _receive(self, call: "Call") -> None:
        async for message in call:
            if message.HasField("welcome"):
                self._backoff.reset()
                self._last_failure = ""
                if not self.is_connected:
                    log.info("streaming to roostd %s", message.welcome.daemon_version)
                self.is_connected = True
                self._on_welcome(message.welcome)
            elif message.HasField("resync"):
                log.info("roostd asks for a new Hello: %s", message.resync.reason)
                self._outbox.put_hello()


def _why(outcomes: Iterable[object]) -> str:
    """Return why a session ended, from the outcomes of its tasks.

    Raises:
        Exception: a task failed for a reason that is no fault of the connection.
    """
    failures = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    for failure in failures:
        if isinstance(failure, grpc.aio.AioRpcError):
            return f"{failure.code().name}: {failure.details()}"
    for failure in failures:
        if not isinstance(failure, asyncio.InvalidStateError):  # a write after the end
            raise failure
    return "the daemon closed the stream"
