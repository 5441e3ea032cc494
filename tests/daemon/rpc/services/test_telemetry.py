import asyncio
import contextlib
import gc
import math
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import structlog
from structlog.testing import capture_logs
from tests.daemon.rpc.probes import floats, hello, sample
from tests.daemon.rpc.served import ManualClock, Served

from roost_engine.domain.events import GpuHealthChanged, TopologySeen
from roost_engine.domain.model import NodeName
from roost_probe.agent.daemon_link import DaemonAddress
from roost_probe.agent.telemetry import Outbox, TelemetryStream
from roost_proto.v1 import telemetry_pb2 as pb
from roost_proto.v1 import telemetry_pb2_grpc
from roostd.rpc.access.limits import (
    CHECKED_EVERY,
    HELLO_BURST_COUNT,
    LOG_BURST_COUNT,
    MOST_SILENT_STREAMS,
    PROBE_MESSAGE_BYTES,
)
from roostd.rpc.access.peers import Peers
from roostd.rpc.services import telemetry

N1 = NodeName("n1")


class Probe:
    """One stream, message by message."""

    def __init__(self, served: Served, channel: grpc.aio.Channel | None = None) -> None:
        stub = telemetry_pb2_grpc.TelemetryStub(channel or served.probe_channel())
        self.call: Any = stub.Stream()

    async def say(self, body: pb.Hello | pb.Sample) -> None:
        if isinstance(body, pb.Hello):
            message = pb.ProbeMessage(hello=body)
        else:
            message = pb.ProbeMessage(sample=body)
        # The daemon may have ended the stream: ends_with() tells how.
        with contextlib.suppress(asyncio.InvalidStateError, grpc.aio.AioRpcError):
            await self.call.write(message)

    async def hear(self) -> pb.DaemonMessage:
        answer: pb.DaemonMessage = await asyncio.wait_for(self.call.read(), 60)
        return answer

    async def greet(self, message: pb.Hello) -> pb.Welcome:
        await self.say(message)
        return (await self.hear()).welcome

    async def ends_with(self) -> tuple[grpc.StatusCode, str]:
        code = await asyncio.wait_for(self.call.code(), 60)
        return code, await self.call.details()


async def test_hello_is_welcomed_and_topology_goes_to_the_engine_at_once(served: Served) -> None:
    welcome = await Probe(served).greet(hello(lanes={(0, 1): 4}))

    assert (welcome.daemon_version, welcome.sample_interval_s) == ("9.9", 1.0)
    (event,) = served.emitted
    assert isinstance(event, TopologySeen)
    assert event.links.score((0, 1)) == 400


async def test_a_sample_is_handed_out_once_and_newest_only(served: Served) -> None:
    probe = Probe(served)
    await probe.greet(hello())
    await probe.say(sample(1, sm_frac=floats(0.1, 0.1, 0.1, 0.1)))
    await probe.say(sample(2, sm_frac=floats(0.2, 0.2, 0.2, 0.2)))
    await served.until_sequence("n1", 2)

    (report,) = served.state.board.take_fresh()

    assert report.newest is not None
    assert report.newest.sm_frac.values[:] == pytest.approx([0.2] * 4)
    assert list(served.state.board.take_fresh()) == []


async def test_a_gap_in_the_sequence_makes_the_daemon_ask_for_a_hello(served: Served) -> None:
    probe = Probe(served)
    await probe.greet(hello())
    await probe.say(sample(1))
    await probe.say(sample(3))

    assert (await probe.hear()).resync.reason == "want sample 2, got 3"
    await probe.say(sample(4))  # of no use until the Hello
    await probe.greet(hello())
    await probe.say(sample(5))
    await served.until_sequence("n1", 5)
    assert served.count("roost_telemetry_samples_total") == 2


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.5, 7.0])
async def test_absurd_samples_never_reach_the_board(served: Served, value: float) -> None:
    probe = Probe(served)
    await probe.greet(hello())
    await probe.say(sample(1, sm_frac=floats(0.5, value, 0.5, 0.5)))
    await probe.say(sample(2))
    kept = await served.until_sequence("n1", 1)

    assert kept.sequence == 2
    assert served.count("roost_telemetry_rejected_total", reason="sm_frac") == 1


async def test_absurd_values_are_noticed_read_or_not_and_then_each_is_checked(
    served: Served,
) -> None:
    probe = Probe(served)
    await probe.greet(hello())
    await probe.say(sample(1))
    for sequence in range(2, CHECKED_EVERY + 2):  # the last but one is checked in any case
        await probe.say(sample(sequence, sm_frac=floats(0.5, -1.0, 0.5, 0.5)))

    async with asyncio.timeout(5):
        while served.count("roost_telemetry_rejected_total", reason="sm_frac") < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    report = served.state.board.report(N1)
    assert report is not None
    assert report.sample is not None
    assert report.sample.sequence == 1


async def test_a_stream_that_says_nothing_is_ended_and_one_that_speaks_is_not(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "FIRST_MESSAGE_S", 0.3)
    code, details = await Probe(served).ends_with()
    assert (code, details) == (grpc.StatusCode.DEADLINE_EXCEEDED, "nothing said for 0.3 s")

    monkeypatch.setattr(telemetry, "FIRST_MESSAGE_S", 60.0)
    monkeypatch.setattr(telemetry, "SILENT_STREAM_S", 2.0)
    probe = await speaking(served)
    assert not probe.call.done()
    code, _ = await probe.ends_with()
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED


async def speaking(served: Served) -> Probe:
    """A probe that has spoken for 3 s and was never silent for 1 s, on a busy machine too."""
    for session in range(20):
        served.clock.at_s += 60.0  # the probe of a try before has gone
        probe, longest_s, before_s = Probe(served), 0.0, time.monotonic()
        await probe.greet(hello(session=str(session)))
        for number in range(1, 21):
            await probe.say(sample(number))
            await asyncio.sleep(0.15)
            now_s = time.monotonic()
            longest_s, before_s = max(longest_s, now_s - before_s), now_s
        if longest_s < 1.0:
            break
    return probe


async def test_a_probe_that_only_sends_nonsense_is_cut_off(served: Served) -> None:
    probe = Probe(served)
    await probe.greet(hello())
    for sequence in range(1, 11):
        await probe.say(sample(sequence, power_w=floats(-1.0, 1.0, 1.0, 1.0)))

    code, details = await probe.ends_with()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details.startswith("power_w: want 0 to 10000")


async def test_another_gpu_count_than_in_the_hello_makes_the_daemon_ask_again(
    served: Served,
) -> None:
    probe = Probe(served)
    await probe.greet(hello(gpu_count=4))
    await probe.say(sample(1, gpu_count=3))

    assert (await probe.hear()).resync.reason == "gpu_count: want 4 as in the Hello, got 3"


async def test_a_sample_without_hello_ends_the_stream(served: Served) -> None:
    probe = Probe(served)
    await probe.say(sample(1))

    code, details = await probe.ends_with()
    assert (code, details) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "the first message must be a Hello",
    )


async def test_a_hello_that_cannot_be_true_ends_the_stream_with_the_reason(
    served: Served,
) -> None:
    probe = Probe(served)
    broken = hello()
    broken.links.pop()
    await probe.say(broken)

    code, details = await probe.ends_with()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details == "links: want every pair of 4 GPUs, 6, got 5"


async def test_two_probes_may_not_report_for_one_node(served: Served) -> None:
    first, second = Probe(served), Probe(served)
    await first.greet(hello())
    await second.say(hello(session="s2"))

    code, details = await second.ends_with()
    assert code is grpc.StatusCode.ALREADY_EXISTS
    assert "another probe speaks for n1" in details
    await first.say(sample(1))
    await served.until_sequence("n1", 1)


async def test_a_probe_that_goes_away_is_logged_by_name(served: Served) -> None:
    with capture_logs() as logs:
        probe = Probe(served)
        await probe.greet(hello())
        await probe.call.done_writing()
        async with asyncio.timeout(60):
            while not [one for one in logs if one["event"] == "probe_lost"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    (lost,) = (line for line in logs if line["event"] == "probe_lost")
    assert (lost["node"], lost["log_level"]) == ("n1", "warning")


async def test_a_probe_that_fell_silent_is_replaced_and_refused(served: Served) -> None:
    first, second = Probe(served), Probe(served)
    await first.greet(hello())
    served.clock.at_s += 60.0
    await second.greet(hello(session="s2"))
    await first.say(sample(1))

    code, _ = await first.ends_with()
    assert code is grpc.StatusCode.ABORTED


async def test_a_flood_is_cut_off(served: Served) -> None:
    probe = Probe(served)
    await probe.greet(hello())
    for sequence in range(1, 500):
        await probe.say(sample(sequence))

    code, _ = await probe.ends_with()
    # A client that is cut off in the middle of a write sees INTERNAL, its own library's word.
    assert code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL)
    assert served.count("roost_telemetry_rejected_total", reason="rate") == 1
    # 40 where twenty are read in a second: 30 are admitted at once, and 5 more in each second.
    assert served.count("roost_telemetry_samples_total") < 250


async def test_more_probes_than_configured_are_refused(served: Served) -> None:
    for number in range(3):
        await Probe(served).greet(hello(f"n{number}"))
    late = Probe(served)
    await late.say(hello("n3"))

    code, details = await late.ends_with()
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "raise listen.max_node_count" in details


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\xff\xff\xff", grpc.StatusCode.INVALID_ARGUMENT),
        (b"\x0a\x7f", grpc.StatusCode.INVALID_ARGUMENT),
        (b"x" * (PROBE_MESSAGE_BYTES + 1), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ],
)
async def test_bytes_that_are_no_message_end_the_stream_with_a_clear_code(
    served: Served, data: bytes, code: grpc.StatusCode
) -> None:
    stream: Any = served.probe_channel().stream_stream("/roost_proto.v1.Telemetry/Stream")

    async def send() -> AsyncIterator[bytes]:
        yield data
        await asyncio.sleep(5)

    call = stream(send())
    assert await asyncio.wait_for(call.code(), 60) is code


async def test_a_lost_gpu_is_reported_at_once_and_stays_lost_until_the_probe_restarts(
    served: Served,
) -> None:
    probe = Probe(served)
    await probe.greet(hello())
    broken = sample(1)
    broken.lost_mask = 0b0100
    await probe.say(broken)
    await served.until_sequence("n1", 1)
    await probe.say(sample(2))
    await probe.greet(hello())  # the same session: nothing was repaired
    served.clock.at_s += 60.0
    await Probe(served).greet(hello(session="s2"))

    told = [event for event in served.emitted if isinstance(event, GpuHealthChanged)]
    assert [(event.gpu_index, event.fault) for event in told] == [(2, "lost"), (2, "")]


async def test_a_probes_report_is_emitted_again_when_slurm_names_the_node(served: Served) -> None:
    probe = Probe(served)
    await probe.greet(hello())
    broken = sample(1)
    broken.xid_events.add(gpu_index=1, code=79)
    await probe.say(broken)
    await served.until_sequence("n1", 1)

    kinds = [type(event).__name__ for event in served.state.board.introduce(N1)]

    assert kinds == ["TopologySeen", "GpuHealthChanged", "LoadsSeen"]
    assert list(served.state.board.introduce(NodeName("other"))) == []


async def test_nodes_that_slurm_does_not_know_are_refused_and_leave_nothing_behind(
    served: Served,
) -> None:
    for number in range(3):
        probe = Probe(served)
        await probe.say(hello(f"made-up-{number}"))

        assert await probe.ends_with() == (
            grpc.StatusCode.NOT_FOUND,
            f"Slurm has no node made-up-{number} with GPUs; give Slurm's NodeName as --node",
        )
    assert served.state.board.node_count == 0
    assert served.state.board.count_since(0.0) == 0
    assert served.count("roost_telemetry_rejected_total", reason="unknown_node") == 3


def forget_all_nodes(served: Served) -> None:
    """As before the first poll of Slurm."""
    for node in ("n0", "n1", "n2", "n3"):
        served.state.board.forget(NodeName(node))


async def test_a_probe_that_connects_before_the_first_poll_of_slurm_must_try_again(
    served: Served,
) -> None:
    forget_all_nodes(served)
    early = Probe(served)
    await early.say(hello())
    assert await early.ends_with() == (
        grpc.StatusCode.UNAVAILABLE,
        "Slurm has not named a node with GPUs yet; try again",
    )

    list(served.state.board.introduce(N1))

    assert (await Probe(served).greet(hello())).daemon_version == "9.9"


async def test_the_probe_s_own_stream_comes_back_once_slurm_names_its_node(
    served: Served,
) -> None:
    forget_all_nodes(served)
    welcomed, refused = asyncio.Event(), asyncio.Event()

    class Impatience(random.Random):
        """Asked how long to wait after a refusal: not at all."""

        def random(self) -> float:
            refused.set()
            return 0.0

    stream = TelemetryStream(
        DaemonAddress(target=f"127.0.0.1:{served.servers.probe_port}"),
        Outbox(),
        hello,
        lambda welcome: welcomed.set(),
        Impatience(),
    )
    run = asyncio.create_task(stream.run())
    try:
        await asyncio.wait_for(refused.wait(), 60)
        assert not welcomed.is_set()
        list(served.state.board.introduce(N1))
        await asyncio.wait_for(welcomed.wait(), 60)
    finally:
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


async def test_a_probe_with_the_gpus_that_the_node_had_takes_its_place_back(
    served: Served,
) -> None:
    """A forger that spoke for a silent node once kept the real probe out, as a twin."""
    await Probe(served).greet(hello(session="real"))
    served.clock.at_s += 60.0
    forged = hello(session="forged")
    for index, gpu in enumerate(forged.gpus):
        gpu.uuid = f"GPU-forged-{index}"
    forger = Probe(served)
    await forger.greet(forged)
    broken = sample(1)
    broken.lost_mask = 0b1111
    await forger.say(broken)
    await served.until_sequence("n1", 1)

    real = Probe(served)
    assert (await real.greet(hello(session="real again"))).daemon_version == "9.9"
    await forger.say(sample(2))

    assert await forger.ends_with() == (grpc.StatusCode.ABORTED, "a newer probe speaks for n1")
    report = served.state.board.report(N1)
    assert report is not None
    assert report.faults == {}
    again = Probe(served)
    await again.say(forged)
    assert (await again.ends_with())[0] is grpc.StatusCode.ALREADY_EXISTS


async def test_streams_without_a_hello_are_limited_by_host_and_counted_back(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.servers.telemetry, "_max_stream_count", 1_000)
    channels = [served.probe_channel() for _ in range(MOST_SILENT_STREAMS // 16)]
    calls: list[Any] = [
        telemetry_pb2_grpc.TelemetryStub(channels[number // 16]).Stream()
        for number in range(MOST_SILENT_STREAMS)
    ]
    await served.until_streams(MOST_SILENT_STREAMS)
    late = Probe(served)
    await late.say(hello())
    code, details = await late.ends_with()
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert details.endswith("streams of this host have not said Hello; try again")

    for call in calls:
        call.cancel()
    await served.until_streams(0)
    assert (await Probe(served).greet(hello())).daemon_version == "9.9"


async def test_hellos_and_log_lines_of_a_host_are_limited(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    monkeypatch.setattr(served.servers.telemetry, "_peers", Peers(clock.now_s))
    channel = served.probe_channel()
    codes: Counter[grpc.StatusCode] = Counter()

    async def knock() -> None:
        probe = Probe(served, channel)
        await probe.say(hello("made-up"))
        codes[(await probe.ends_with())[0]] += 1

    with structlog.testing.capture_logs() as lines:
        for _ in range(int(HELLO_BURST_COUNT) + 10):
            await knock()
        clock.at_s += 10.0
        await knock()

    assert codes == {
        grpc.StatusCode.NOT_FOUND: HELLO_BURST_COUNT + 1,
        grpc.StatusCode.RESOURCE_EXHAUSTED: 10,
    }
    told = [entry for entry in lines if entry["event"] == "probe_unknown"]
    assert len(told) == LOG_BURST_COUNT + 1
    assert told[-1]["left_out_count"] == HELLO_BURST_COUNT - LOG_BURST_COUNT


async def test_an_empty_message_of_a_newer_probe_is_passed_over(served: Served) -> None:
    probe = Probe(served)
    await probe.greet(hello())
    await probe.call.write(pb.ProbeMessage())
    await probe.say(sample(1))
    await served.until_sequence("n1", 1)


def configure(served: Served, section: str, **update: Any) -> None:
    config = served.state.config
    changed = getattr(config, section).model_copy(update=update)
    served.state.config = config.model_copy(update={section: changed})


async def test_the_interval_follows_the_configuration(served: Served) -> None:
    configure(served, "telemetry", sample_interval_s=5.0)

    assert (await Probe(served).greet(hello())).sample_interval_s == 5.0


async def test_processes_are_wanted_while_jobs_may_share(served: Served) -> None:
    probe = Probe(served)
    assert (await probe.greet(hello())).process_interval_s == 0.0
    await probe.say(sample(1))

    configure(served, "sharing", enabled=True)
    await probe.say(sample(2))

    assert (await probe.hear()).welcome.process_interval_s == 10.0
    configure(served, "telemetry", process_interval_s=0.0)
    await probe.say(sample(3))
    assert (await probe.hear()).welcome.process_interval_s == 0.0
    await served.until_sequence("n1", 3)


async def test_processes_are_wanted_of_a_node_with_memory_of_no_job(served: Served) -> None:
    probe = Probe(served)
    assert (await probe.greet(hello())).process_interval_s == 0.0
    report = served.state.board.report(NodeName("n1"))
    assert report is not None

    for sequence, wanted_s in ((1, 10.0), (2, 0.0)):
        report.has_foreign_memory = wanted_s > 0
        await probe.say(sample(sequence))
        assert (await probe.hear()).welcome.process_interval_s == wanted_s


async def test_a_probe_without_driver_is_welcome_but_the_engine_hears_nothing_of_it(
    served: Served,
) -> None:
    probe = Probe(served)
    assert (await probe.greet(hello(gpu_count=0))).daemon_version == "9.9"
    await probe.say(pb.Sample(sequence=1, gpu_count=0))
    await served.until_sequence("n1", 1)

    assert served.emitted == []
    assert list(served.state.board.take_fresh()) == []
    assert list(served.state.board.introduce(N1)) == []


async def test_a_probe_that_loses_its_driver_takes_back_neither_links_nor_faults(
    served: Served,
) -> None:
    first = Probe(served)
    await first.greet(hello())
    broken = sample(1)
    broken.lost_mask = 0b0100
    await first.say(broken)
    await served.until_sequence("n1", 1)
    served.clock.at_s += 60.0
    second = Probe(served)
    await second.greet(hello(gpu_count=0, session="s2"))
    emitted_before = list(served.emitted)
    await second.greet(hello(session="s2"))

    assert [type(event).__name__ for event in emitted_before] == [
        "TopologySeen",
        "GpuHealthChanged",
    ]
    news = [event for event in served.emitted[2:] if isinstance(event, GpuHealthChanged)]
    assert [(event.gpu_index, event.fault) for event in news] == [(2, "")]


async def test_a_stream_is_freed_without_the_garbage_collector(served: Served) -> None:
    gc.collect()
    gc.disable()
    try:
        async with served.probe_channel() as channel:
            probe = Probe(served, channel)
            await probe.greet(hello())
            await probe.say(sample(0))
            assert count_streams() == 1
            probe.call.cancel()
        async with asyncio.timeout(60):  # ops.collector counts on it
            while count_streams():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


def count_streams() -> int:
    return sum(type(one).__name__ == "_Stream" for one in gc.get_objects())
