"""The node's UNIX socket: Slurm hooks ask here for a job's plan and report what it got.

One JSON object a line, both ways. docs/probe.md has the protocol. Users who ask too often are
refused here: each question costs roostd time in the process that decides.
"""

import asyncio
import contextlib
import json
import logging
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from roost_probe.agent.allowance import Allowance
from roost_probe.errors import SettingsError
from roost_probe.node.topology import Topology
from roost_proto.v1 import placement_pb2, placement_pb2_grpc

log = logging.getLogger(__name__)

DEADLINE_S = 0.5  # hooks have one second in all, and a hook that is late holds a job up
IDLE_S = 10.0
MOST_REQUEST_BYTES = 4096
MOST_CONNECTIONS = 512  # of a user; each task of a step has one for a moment
PLANS = 512, 10.0  # of a user, at once and a second: a step asks once for each of its tasks
REPORTS = 16, 2.0  # the same of progress: once a minute is enough for each job
REFUSED_AFTER_S = 0.1  # a loop that is refused costs the node no core


class BadRequest(Exception):
    """A hook sent a line that is not a valid request."""


class AgentSocket:
    """Answers hooks by asking roostd.

    Args:
        path: where to listen.
        node: this node's Slurm name.
        channel: to roostd.
        topology: returns the node's current topology.
        trusted_uids: user ids that may report allocations, and ask as often as they like; every
            user may ask for plans.
        clock: seconds, never backwards.
    """

    def __init__(
        self,
        path: Path,
        node: str,
        channel: grpc.aio.Channel,
        topology: Callable[[], Topology],
        trusted_uids: Sequence[int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._node, self._topology = path, node, topology
        self._placement = placement_pb2_grpc.PlacementStub(channel)
        self._trusted_uids = {0, os.getuid()} if trusted_uids is None else set(trusted_uids)
        self._server: asyncio.Server | None = None
        self._open = Counter[int]()
        self._plans, self._reports = Allowance(*PLANS, clock), Allowance(*REPORTS, clock)

    async def start(self) -> None:
        """Listen. A socket that a dead probe left behind is replaced.

        Raises:
            SettingsError: no socket can be made there.
        """
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
            self._server = await asyncio.start_unix_server(
                self._serve, self._path, limit=MOST_REQUEST_BYTES
            )
            self._path.chmod(0o666)  # TaskProlog runs as the job's user
        except OSError as error:
            raise SettingsError(
                f"--agent-socket {self._path}: {error.strerror or error}"
            ) from error

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        uid = _peer_uid(writer.get_extra_info("socket"))
        self._open[uid] += 1
        try:
            if uid in self._trusted_uids or self._open[uid] <= MOST_CONNECTIONS:
                await self._answer_lines(reader, writer, uid)
            await _close(writer)
        finally:
            self._open[uid] -= 1
            if not self._open[uid]:
                del self._open[uid]

    async def _answer_lines(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, uid: int
    ) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError, ValueError):
            while line := await asyncio.wait_for(reader.readline(), IDLE_S):
                answer = await self._answer(line, uid)
                writer.write(json.dumps(answer).encode() + b"\n")
                await asyncio.wait_for(writer.drain(), IDLE_S)

    async def _answer(self, line: bytes, uid: int) -> Mapping[str, Any]:
        try:
            request = _parse(line)
            match request.get("op"):
                case "plan":
                    job_id = _job_id(request)
                    await self._allow(self._plans, uid)
                    return await self._plan(job_id)
                case "allocated":
                    if uid not in self._trusted_uids:
                        raise BadRequest(f"uid {uid} may not report allocations")
                    return await self._allocated(_job_id(request), _indices(request))
                case "progress":
                    job_id, step_count = _job_id(request), _step_count(request)
                    await self._allow(self._reports, uid)
                    return await self._progress(job_id, step_count, uid)
                case unknown:
                    known = "plan, allocated and progress"
                    raise BadRequest(f"unknown op {unknown!r}; known are {known}")
        except BadRequest as error:
            return {"error": str(error)}
        except RecursionError:  # of reading nested lists, or of quoting them
            return {"error": "no JSON: nested too deeply"}
        except grpc.aio.AioRpcError as error:
            return {"error": f"roostd did not answer: {error.code().name}"}

    async def _allow(self, allowance: Allowance, uid: int) -> None:
        if uid not in self._trusted_uids and not allowance.take(uid):
            await asyncio.sleep(REFUSED_AFTER_S)
            raise BadRequest(f"too often; at most {allowance.per_s:.0f} a second for each user")

    async def _plan(self, job_id: int) -> Mapping[str, Any]:
        request = placement_pb2.GetPlanRequest(slurm_job_id=job_id, node=self._node)
        plan = await self._placement.GetPlan(request, timeout=DEADLINE_S)
        return {
            "managed": plan.managed,
            "gpu_indices": list(plan.gpu_indices),
            "rank_order": list(plan.rank_order),
            "gpu_uuids": list(plan.gpu_uuids),
            "nics": nearest_nics(self._topology(), plan.gpu_indices),
        }

    async def _allocated(self, job_id: int, gpu_indices: Sequence[int]) -> Mapping[str, Any]:
        report = placement_pb2.AllocationReport(
            slurm_job_id=job_id, node=self._node, gpu_indices=gpu_indices
        )
        ack = await self._placement.ReportAllocation(report, timeout=DEADLINE_S)
        return {"as_planned": ack.as_planned}

    async def _progress(self, job_id: int, step_count: int, uid: int) -> Mapping[str, Any]:
        report = placement_pb2.ProgressReport(
            slurm_job_id=job_id, node=self._node, uid=uid, step_count=step_count
        )
        ack = await self._placement.Progress(report, timeout=DEADLINE_S)
        return {"accepted": ack.accepted, "reason": ack.reason}


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection; one whose client does not read the answers left is cut off."""
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), IDLE_S)
    except TimeoutError:
        writer.transport.abort()
    except ConnectionError:
        pass


def _step_count(request: dict[str, Any]) -> int:
    count = request.get("steps")
    if type(count) is not int or not 0 <= count < 1 << 63:
        raise BadRequest(f"steps is {count!r}; want the number of steps since the start of the run")
    return count


def nearest_nics(topology: Topology, gres_indices: Sequence[int]) -> dict[str, str]:
    """Return the name of the NIC nearest to each GPU, keyed by the GPU's gres index as text.

    Where several NICs are equally near, neighbouring GPUs get different ones.
    """
    nics = dict[str, str]()
    order = gres_order(topology)
    for index in gres_indices:
        if index >= len(order):
            continue
        gpu = order[index]
        levels = [
            (level, nic.name) for nic in topology.nics if (level := nic.gpu_levels[gpu]) is not None
        ]
        if levels:
            closest, _ = min(levels)
            nearest = [name for level, name in levels if level == closest]
            nics[str(index)] = nearest[index % len(nearest)]
    return nics


def gres_order(topology: Topology) -> list[int]:
    """Return NVML indices in gres order: gres index i is the i-th lowest /dev/nvidia number.

    A lost GPU reports no number; it has one that no other GPU has. Where that does not tell the
    numbers, NVML's order is returned. roostd has the same rule, with an example:
    telemetry.probe_messages.gres_order.
    """
    minors = [gpu.minor_number for gpu in topology.gpus]
    by_minor = {minor: index for index, minor in enumerate(minors) if minor is not None}
    lost = [index for index, minor in enumerate(minors) if minor is None]
    count = len(minors)
    has_doubles = len(by_minor) + len(lost) < count
    # A number of `count` or more leaves gaps below it, and the lost GPU may have any of them.
    if has_doubles or (lost and any(number >= count for number in by_minor)):
        return list(range(count))
    free = (number for number in range(count) if number not in by_minor)
    by_minor |= dict(zip(free, lost, strict=False))
    return [by_minor[number] for number in sorted(by_minor)]


def _parse(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
    except ValueError as error:
        raise BadRequest(f"no JSON: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest("want a JSON object")
    return request


def _job_id(request: dict[str, Any]) -> int:
    job_id = request.get("job_id")
    if not isinstance(job_id, int) or isinstance(job_id, bool) or not 0 < job_id < 1 << 63:
        raise BadRequest(f"job_id is {job_id!r}; want Slurm's numeric job id")
    return job_id


def _indices(request: dict[str, Any]) -> list[int]:
    indices = request.get("gpu_indices")
    if not isinstance(indices, list) or not all(type(i) is int and 0 <= i < 64 for i in indices):
        raise BadRequest(f"gpu_indices is {indices!r}; want a list of gres indices")
    return indices


def _peer_uid(connection: socket.socket) -> int:
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    return int(struct.unpack("3i", credentials)[1])
