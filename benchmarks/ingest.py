"""What the probes of a cluster cost roostd: streams from other processes to the whole daemon.

The daemon runs on a Slurm in memory, in a process of its own. Each node has a stream and sends a
sample of eight GPUs a second; beside them a node agent asks for plans, twenty times a second, as
Slurm's hooks do. A sample is lost when it was sent and roostd has not counted it. The longest turn
of the event loop is in CPU time, which other programs on the machine do not lengthen. With --submit
a job is submitted each second: the engine is then told of the load of every node.
"""

import argparse
import asyncio
import gc
import multiprocessing
import time
from multiprocessing.synchronize import Event

import _bare_reader
import _harness
import _stand_in_daemon
import grpc
from _raw_probes import RawProbe, connect
from _stand_in_daemon import StandInDaemon, cpu_s, rss_mb

from roost_proto.v1 import placement_pb2, placement_pb2_grpc
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.ops.files import raise_file_limit

GPU_COUNT, INTERVAL_S = 8, 1.0
SENDER_COUNT = 2
_CONNECTING = 8  # streams at a time, in each process
_SLICE_S = 0.002  # samples that are due within it go together
_PATH = "/roost_proto.v1.Telemetry/Stream"
_OPTIONS = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.bdp_probe", 0)]
_ASKED_PER_S = 20.0
_CONNECT_S, _SIGN_OF_LIFE_S, _ROUND_S = 600.0, 20.0, 3.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=_harness.whole, default=1_000)
    parser.add_argument("--seconds", type=_harness.number, default=20.0, help="of measurement")
    parser.add_argument(
        "--bare", action="store_true", help="a gRPC server that only reads, in place of roostd"
    )
    parser.add_argument("--submit", action="store_true", help="a job each second")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.nodes, options.seconds, is_bare=options.bare, submits=options.submit)
    _harness.report(figures, as_json=options.json)


def measure(
    node_count: int, seconds: float, *, is_bare: bool = False, submits: bool = False
) -> dict[str, object]:
    """Return the figures of one size, of roostd or of a server that only reads."""
    program = str((_bare_reader if is_bare else _stand_in_daemon).__file__)
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    counts = context.Queue()
    with StandInDaemon(node_count, program=program) as daemon:
        senders = [
            context.Process(
                daemon=True,  # they would outlive a benchmark that fails
                target=send_all,
                args=(daemon.probes, range(start, node_count, SENDER_COUNT), stop, counts),
            )
            for start in range(SENDER_COUNT)
        ]
        for sender in senders:
            sender.start()
        _wait_for_streams(daemon, node_count)
        time.sleep(_ROUND_S + 2 * INTERVAL_S)  # a round of one sender may be under way
        daemon.tell("reset")
        began_cpu_s, began_s = cpu_s(daemon.pid), time.monotonic()
        waits_s = asyncio.run(_ask_and_submit(daemon, seconds, submits=submits))
        took_s, used_s = time.monotonic() - began_s, cpu_s(daemon.pid) - began_cpu_s
        memory_mb = rss_mb(daemon.pid)
        stop.set()
        sent = sum(counts.get(timeout=60.0) for _ in senders)
        time.sleep(1.0)
        figures = daemon.tell("figures")
        for sender in senders:
            sender.terminate()
            sender.join()
    return {
        "nodes": node_count,
        "cpu_cores": used_s / took_s,
        "rss_mb": memory_mb,
        "rpc_p50_ms": _harness.percentile(waits_s, 50) * 1e3,
        "rpc_p99_ms": _harness.percentile(waits_s, 99) * 1e3,
        "longest_turn_cpu_ms": figures.get("longest_turn_cpu_ms"),
        "streams": int(figures["streams"]),
        "lost": int(sent - figures["samples"]),
        "sent": sent,
        "seconds": took_s,
    }


def _wait_for_streams(daemon: StandInDaemon, count: int) -> None:
    end_s = time.monotonic() + _CONNECT_S
    while (open_count := daemon.tell("figures")["streams"]) < count:
        if time.monotonic() > end_s:
            raise SystemExit(f"ingest.py: {open_count:.0f} of {count} streams after {_CONNECT_S} s")
        time.sleep(0.5)


async def _ask_and_submit(daemon: StandInDaemon, seconds: float, *, submits: bool) -> list[float]:
    asking = asyncio.create_task(ask(daemon.probes, seconds))
    while submits and not (await asyncio.wait({asking}, timeout=1.0))[0]:
        await asyncio.to_thread(daemon.tell, "submit 1")
    return await asking


async def ask(address: str, seconds: float) -> list[float]:
    """Ask for plans at an even pace, and return how long each answer took."""
    waits_s, end_s = list[float](), time.monotonic() + seconds
    async with grpc.aio.insecure_channel(address, _OPTIONS) as channel:
        stub = placement_pb2_grpc.PlacementStub(channel)
        while time.monotonic() < end_s:
            began_s = time.monotonic()
            await stub.GetPlan(placement_pb2.GetPlanRequest(node="n0", slurm_job_id=1))
            waits_s.append(time.monotonic() - began_s)
            await asyncio.sleep(max(1.0 / _ASKED_PER_S - waits_s[-1], 0.0))
    return waits_s


# -- the senders, in processes of their own --------------------------------------------------


def send_all(address: str, nodes: range, stop: Event, counts: "multiprocessing.Queue[int]") -> None:
    """Be the probes of some nodes until told to stop; then say how many samples were sent."""
    raise_file_limit()
    gc.disable()
    counts.put(asyncio.run(_send_all(address, nodes, stop)))
    time.sleep(60.0)  # the streams stay open until roostd has read everything


async def _send_all(address: str, nodes: range, stop: Event) -> int:
    host, _, port = address.rpartition(":")
    turns, samples = asyncio.Semaphore(_CONNECTING), _Samples()

    async def open_one(node: int) -> None:
        async with turns:  # roostd ends a stream that does not say Hello soon
            hello = pb.ProbeMessage(hello=greeting(f"n{node}")).SerializeToString()
            samples.probes.append(await connect(host, int(port), _PATH, hello))

    opening = asyncio.gather(*map(open_one, nodes))
    while not (await asyncio.wait({opening}, timeout=_SIGN_OF_LIFE_S))[0]:
        await samples.send_round(stop, _ROUND_S)  # roostd ends a stream that says nothing for long
    await opening
    while not stop.is_set():
        await samples.send_round(stop, INTERVAL_S)
    await asyncio.sleep(0.5)
    return samples.sent_count


class _Samples:
    """What the probes of a process send: in each round a sample a node, evenly spread."""

    def __init__(self) -> None:
        self.probes: list[RawProbe] = []
        self.sent_count = self._sequence = 0
        self._message, self._due_s = pb.ProbeMessage(sample=load()), 0.0

    async def send_round(self, stop: Event, seconds: float) -> None:
        """Send a sample for each node, until told to stop."""
        loop, probes = asyncio.get_running_loop(), list(self.probes)
        self._sequence += 1
        self._message.sample.sequence = self._sequence
        data = self._message.SerializeToString()
        began_s = max(self._due_s, loop.time() - seconds)
        self._due_s = began_s + seconds
        for place, probe in enumerate(probes):
            due_s = began_s + seconds * place / len(probes)
            if due_s > loop.time() + _SLICE_S:
                await asyncio.sleep(due_s - loop.time())
                if stop.is_set():
                    return
            if probe.is_open:
                probe.send(data)
                self.sent_count += 1
        await asyncio.sleep(self._due_s - loop.time())


def greeting(node: str) -> pb.Hello:
    """Return the Hello of a node of eight GPUs with every link."""
    message = pb.Hello(node=node, schema_version=1, probe_version="bench", session_id="1")
    for index in range(GPU_COUNT):
        message.gpus.add(
            index=index,
            uuid=f"GPU-{node}-{index}",
            pci_bus_id=f"00000000:{index:02X}:00.0",
            model="NVIDIA A100-SXM4-80GB",
            memory_bytes=80 << 30,
            minor_number=index,
        )
        for other in range(index):
            message.links.add(
                a=other, b=index, level=pb.ANCESTOR_LEVEL_NUMA_NODE, nvlink_count=index % 2
            )
    return message


def load() -> pb.Sample:
    """Return a sample with every quantity of every GPU."""
    message = pb.Sample(sequence=1, gpu_count=GPU_COUNT)
    for field in pb.Sample.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.name == "FloatColumn":
            if field.name.startswith("nic_"):
                continue
            column = getattr(message, field.name)
            column.present_mask = (1 << GPU_COUNT) - 1
            column.values.extend([0.5] * GPU_COUNT)
    return message


if __name__ == "__main__":
    main()
