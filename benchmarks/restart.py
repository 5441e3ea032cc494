"""How long a restarted roostd takes to its first decision, and whether a reload drops streams.

The daemon starts in a process of its own, on a Slurm in memory that already has the waiting jobs.
The start includes Python's imports; the first decision is one that the engine has made.
"""

import argparse
import asyncio

import _harness
import grpc
from _stand_in_daemon import StandInDaemon
from ingest import greeting

from roost_proto.v1 import telemetry_pb2 as pb
from roost_proto.v1 import telemetry_pb2_grpc

STREAM_COUNT = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=_harness.whole, default=1_250)
    parser.add_argument("--jobs", type=_harness.whole, default=10_000, help="waiting at the start")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    _harness.report(measure(options.nodes, options.jobs), as_json=options.json)


def measure(node_count: int, job_count: int) -> dict[str, object]:
    """Return the figures of one size."""
    with StandInDaemon(node_count, job_count) as daemon:
        ready = daemon.ready
        stream_count = min(STREAM_COUNT, node_count)
        figures = asyncio.run(reload_with_streams(daemon, stream_count))
    return {
        "nodes": node_count,
        "jobs": job_count,
        "serves_s": ready["started_after_s"],
        "first_decision_s": ready["first_decision_s"],
        **figures,
    }


async def reload_with_streams(daemon: StandInDaemon, stream_count: int) -> dict[str, object]:
    """Open some probes' streams, reload, and count the streams that are still open."""
    options = [("grpc.use_local_subchannel_pool", 1)]  # a connection each, as probes have
    channels = [grpc.aio.insecure_channel(daemon.probes, options) for _ in range(stream_count)]
    calls = []
    for index, channel in enumerate(channels):  # one by one: a stream is to say Hello soon
        call = telemetry_pb2_grpc.TelemetryStub(channel).Stream()
        calls.append(call)
        await call.write(pb.ProbeMessage(hello=greeting(f"n{index}")))
        await call.read()
    answer = await asyncio.to_thread(daemon.tell, "reload")
    dropped = sum(call.done() for call in calls)
    for channel in channels:
        await channel.close()
    return {
        "reload_s": answer["reload_s"],
        "reload_stall_ms": answer["longest_stall_ms"],
        "reload_turn_cpu_ms": answer["longest_turn_cpu_ms"],
        "streams": stream_count,
        "streams_dropped": dropped,
    }


if __name__ == "__main__":
    main()
