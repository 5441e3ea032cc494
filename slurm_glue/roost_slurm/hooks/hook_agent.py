"""Asks the probe's agent on this node what roostd planned for a job.

One JSON object a line over a UNIX stream socket, one request a connection. The agent may be
stopped or slow, or another program may listen there: all steps share a deadline, and every field
of the answer is checked.
"""

import json
import re
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

_MAX_REPLY_BYTES = 64 * 1024
_MAX_INDEX = 127
_INDEX = re.compile(r"\d{1,3}", re.ASCII)  # int() refuses what has thousands of digits
_NIC = re.compile(r"[A-Za-z0-9_]{1,32}", re.ASCII)


class AgentError(Exception):
    """The agent gave no usable answer in time."""


class Plan(NamedTuple):
    """What roostd chose on this node. GPUs are gres indices."""

    managed: bool  # False: the job was left to Slurm, and the other fields are empty
    gpu_indices: tuple[int, ...] = ()
    rank_order: tuple[int, ...] = ()  # which GPU each local rank should take
    nics: Mapping[int, str] = MappingProxyType({})  # nearest NIC of a GPU, where known


class Agent:
    """The agent behind a socket path."""

    def __init__(self, socket_path: Path, timeout_s: float) -> None:
        self.socket_path, self.timeout_s = socket_path, timeout_s

    def plan(self, job_id: int) -> Plan:
        """Return what roostd planned for a job.

        Raises:
            AgentError: no answer in time, or not one that makes sense.
        """
        reply = self._ask({"op": "plan", "job_id": job_id})
        if reply.get("managed") is not True:
            return Plan(managed=False)
        nics = reply.get("nics") or {}
        if not isinstance(nics, dict):
            raise AgentError("nics is no object")
        return Plan(
            managed=True,
            gpu_indices=_indices(reply, "gpu_indices"),
            rank_order=_indices(reply, "rank_order"),
            nics={int(gpu): name for gpu, name in nics.items() if _is_nic(gpu, name)},
        )

    def report_allocated(self, job_id: int, gpu_indices: Sequence[int]) -> bool:
        """Report the GPUs that Slurm allocated to the job; return whether these were planned.

        Raises:
            AgentError: no answer in time, or not one that makes sense.
        """
        request = {"op": "allocated", "job_id": job_id, "gpu_indices": list(gpu_indices)}
        return self._ask(request).get("as_planned") is True

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        deadline = time.monotonic() + self.timeout_s
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(self.timeout_s)
                connection.connect(str(self.socket_path))
                connection.sendall(json.dumps(request).encode() + b"\n")
                reply = json.loads(_receive_line(connection, deadline))
        except OSError as error:
            raise AgentError(f"{self.socket_path}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise AgentError(f"{self.socket_path}: the answer is not JSON") from error
        if not isinstance(reply, dict):
            raise AgentError(f"{self.socket_path}: the answer is no object")
        if "error" in reply:
            raise AgentError(f"{self.socket_path}: {str(reply['error'])[:200]}")
        return reply


def _receive_line(connection: socket.socket, deadline: float) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        # Each recv gets the time that is left: a peer that sends single bytes must not extend it.
        connection.settimeout(max(deadline - time.monotonic(), 1e-3))
        chunk = connection.recv(4096)
        received += chunk
        if not chunk or len(received) > _MAX_REPLY_BYTES or time.monotonic() > deadline:
            raise OSError("no whole line in time")
    return received


def _indices(reply: dict[str, Any], key: str) -> tuple[int, ...]:
    values = reply.get(key, [])
    if not isinstance(values, list) or not all(_is_index(value) for value in values):
        raise AgentError(f"{key} is no list of GPU indices")
    if len(set(values)) != len(values):
        raise AgentError(f"{key} names a GPU twice")
    return tuple(values)


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_INDEX


def _is_nic(gpu: str, name: object) -> bool:
    known = _INDEX.fullmatch(gpu) is not None and int(gpu) <= _MAX_INDEX
    return known and isinstance(name, str) and _NIC.fullmatch(name) is not None
