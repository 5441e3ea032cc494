"""The stream to roostd: what is sent first, and what replaces what."""

import asyncio
import random

import grpc
import pytest

from roost_probe.agent.daemon_link import DaemonAddress
from roost_probe.agent.telemetry import MOST_WAITING_XIDS, Outbox, TelemetryStream, _why
from roost_probe.testing.server import FakeDaemon
from roost_proto.v1 import telemetry_pb2


def sample(power_w: float = 0.0, xids: tuple[int, ...] = ()) -> telemetry_pb2.Sample:
    return telemetry_pb2.Sample(
        gpu_count=1,
        power_w=telemetry_pb2.FloatColumn(present_mask=1, values=[power_w]),
        xid_events=[telemetry_pb2.XidEvent(code=code) for code in xids],
    )


async def test_the_newest_sample_replaces_one_that_waits() -> None:
    outbox = Outbox()
    outbox.put_sample(sample(100.0))
    outbox.put_sample(sample(200.0))
    taken = await outbox.take()
    assert taken is not None
    assert list(taken.power_w.values) == [200.0]


async def test_xids_of_replaced_samples_are_carried_over_in_order() -> None:
    outbox = Outbox()
    for code in (79, 31, 48):
        outbox.put_sample(sample(xids=(code,)))
    taken = await outbox.take()
    assert taken is not None
    assert [event.code for event in taken.xid_events] == [79, 31, 48]
    outbox.put_sample(sample(xids=(13,)))
    taken = await outbox.take()
    assert taken is not None
    assert [event.code for event in taken.xid_events] == [13]


async def test_of_too_many_xids_the_newest_are_sent() -> None:
    outbox = Outbox()
    for code in range(MOST_WAITING_XIDS + 3):
        outbox.put_sample(sample(xids=(code,)))
    taken = await outbox.take()
    assert taken is not None
    codes = [event.code for event in taken.xid_events]
    assert (len(codes), codes[0], codes[-1]) == (MOST_WAITING_XIDS, 3, MOST_WAITING_XIDS + 2)


async def test_a_hello_goes_before_the_sample_that_waits_and_is_sent_once() -> None:
    outbox = Outbox()
    outbox.put_sample(sample())
    outbox.put_hello()
    outbox.put_hello()
    assert await outbox.take() is None
    assert await outbox.take() is not None
    waiting = asyncio.ensure_future(outbox.take())
    await asyncio.sleep(0)  # one turn of the loop: the outbox is empty
    assert not waiting.done()
    outbox.put_sample(sample())
    assert await waiting is not None


async def test_a_new_session_counts_its_samples_from_one(fake_daemon: FakeDaemon) -> None:
    outbox, session = Outbox(), ["first"]
    welcomes = list[telemetry_pb2.Welcome]()
    stream = TelemetryStream(
        DaemonAddress(target=fake_daemon.target),
        outbox,
        lambda: telemetry_pb2.Hello(node="n1", session_id=session[0]),
        welcomes.append,
        random.Random(1),
    )
    running = asyncio.create_task(stream.run())
    await fake_daemon.received(hello_count=1)
    for count in (1, 2):
        outbox.put_sample(sample())
        await fake_daemon.received(sample_count=count)
    outbox.put_hello()  # the same session: the count continues
    await fake_daemon.received(hello_count=2)
    outbox.put_sample(sample())
    await fake_daemon.received(sample_count=3)
    session[0] = "second"
    outbox.put_hello()
    await fake_daemon.received(hello_count=3)
    outbox.put_sample(sample())
    await fake_daemon.received(sample_count=4)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert [one.sequence for one in fake_daemon.samples] == [1, 2, 3, 1]
    assert welcomes[0].daemon_version == "fake"


def test_a_broken_connection_is_why_a_session_ended() -> None:
    metadata = grpc.aio.Metadata()
    broken = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, metadata, metadata, "refused")
    late = asyncio.InvalidStateError("write after the end")
    assert _why([None, late, broken]) == "UNAVAILABLE: refused"
    assert _why([asyncio.CancelledError(), late]) == "the daemon closed the stream"


def test_an_error_of_the_probe_itself_is_raised() -> None:
    with pytest.raises(KeyError):
        _why([asyncio.InvalidStateError(), KeyError("gpus")])
