"""A gRPC server that only reads what probes send: the least that ingest.py can cost in Python.

It takes the place of the daemon's process in _stand_in_daemon.py: the same messages, options and
event loop, but it checks and stores nothing. Slurm's nodes and jobs are not there.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any


async def serve(node_count: int) -> None:
    """Read streams until the input ends."""
    import grpc

    from roost_proto.v1 import placement_pb2, placement_pb2_grpc, telemetry_pb2_grpc
    from roost_proto.v1 import telemetry_pb2 as pb
    from roostd.ops.files import file_limit
    from roostd.rpc.access.limits import probe_options

    figures = {"samples": 0, "streams": 0}

    class Telemetry(telemetry_pb2_grpc.TelemetryServicer):
        async def Stream(  # type: ignore[override]
            self, request_iterator: AsyncIterator[pb.ProbeMessage], context: Any
        ) -> None:
            await context.read()
            await context.write(pb.DaemonMessage(welcome=pb.Welcome(sample_interval_s=1.0)))
            figures["streams"] += 1
            while await context.read() is not grpc.aio.EOF:
                figures["samples"] += 1

    class Placement(placement_pb2_grpc.PlacementServicer):
        async def GetPlan(
            self, request: placement_pb2.GetPlanRequest, context: Any
        ) -> placement_pb2.Plan:
            return placement_pb2.Plan(managed=False)

        async def ReportAllocation(
            self, request: placement_pb2.AllocationReport, context: Any
        ) -> placement_pb2.AllocationAck:
            return placement_pb2.AllocationAck()

        async def Progress(
            self, request: placement_pb2.ProgressReport, context: Any
        ) -> placement_pb2.ProgressAck:
            return placement_pb2.ProgressAck()

    server = grpc.aio.server(options=probe_options(node_count + 100, file_limit()))
    telemetry_pb2_grpc.add_TelemetryServicer_to_server(Telemetry(), server)
    placement_pb2_grpc.add_PlacementServicer_to_server(Placement(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"probe_port": port}), flush=True)
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.readline):
        print(json.dumps(figures), flush=True)
    await server.stop(None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("node_count", type=int)
    options, _ = parser.parse_known_args()
    from roostd.ops.files import raise_file_limit
    from roostd.ops.grpc_environment import prepare_grpc

    prepare_grpc()
    raise_file_limit()
    asyncio.run(serve(options.node_count))


if __name__ == "__main__":
    main()
