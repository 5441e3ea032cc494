"""The Ray engine: performs the cases of a sweep on a Ray cluster, or on a local Ray.

Ray is an extra (`pip install roost[ray]`) and imported only if it is used. Its workers need Roost
installed; trace and cluster are sent to them, so they need no files.
"""

import os
import socket
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from roost_sim.errors import SimError
from roost_sim.sweeps.sweep import Case, Failed, Finished, Sweep

_AHEAD = 4  # tasks waiting at the cluster per core, so that none idles between two
_CONNECT_S = 10.0


class RayError(SimError):
    """Ray is not installed, or a cluster cannot be reached."""


class Ray(Protocol):
    """The part of the Ray library that is used here."""

    exceptions: Any

    def init(self, **options: object) -> object:
        """Connect, or start a local one."""

    def put(self, value: object) -> object:
        """Store a value where every worker can read it."""

    def remote(self, **options: object) -> Any:
        """Decorate a function so that it runs on a worker."""

    def get(self, reference: object) -> Any:
        """Fetch a result."""

    def wait(self, references: list[Any], *, num_returns: int) -> tuple[list[Any], list[Any]]:
        """Wait until some are ready; (these, the others)."""

    def cancel(self, reference: Any) -> None:
        """Give up a task."""

    def cluster_resources(self) -> dict[str, float]:
        """Return what the whole cluster has."""

    def shutdown(self) -> None:
        """Disconnect, and stop what `init` started."""


@dataclass(frozen=True, slots=True)
class RayEngine:
    """See roost_sim.sweeps.sweep.SweepEngine.

    Attributes:
        address: of a Ray cluster, "auto" for the one that this machine is part of; None: start a
            local Ray for the duration of the sweep.
        process_count: cores of the local Ray.
    """

    address: str | None
    process_count: int

    def perform(self, sweep: Sweep, cases: Sequence[Case]) -> Generator[Finished, None, None]:
        """See SweepEngine.

        Raises:
            RayError: no library, or no cluster at the address.
        """
        if not cases:
            return
        ray = connect(self.address, self.process_count)
        try:
            yield from _perform_on(ray, sweep, cases)
        finally:
            ray.shutdown()


def connect(address: str | None, process_count: int) -> Ray:
    """Return the Ray library, connected.

    Args:
        address: see RayEngine.
        process_count: see RayEngine.

    Raises:
        RayError: no library, or no cluster at the address.
    """
    ray = _import_ray()
    if address is not None:
        _check_port(address)
    local = {"num_cpus": process_count, "include_dashboard": False}
    options = {"address": address} if address else {"address": "local", **local}
    for is_last in (address is not None, True):
        try:
            ray.init(**options, log_to_driver=False, logging_level="ERROR")
            break
        except Exception as error:  # Ray has no class of its own for most of what goes wrong
            ray.shutdown()
            # Ray gives its processes 30 s to start, in which a busy machine may not have read them.
            if is_last or "timed out" not in str(error):
                where, lines = address or "this machine", str(error).splitlines() or [repr(error)]
                raise RayError(f"no Ray at {where}: {lines[0]}") from error
    return ray


def _check_port(address: str) -> None:
    """Refuse HOST:PORT where nothing listens: Ray tries for minutes there, deaf to Ctrl-C.

    "auto" and other words are left to Ray.

    Raises:
        RayError: no connection.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S).close()
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise RayError(f"no Ray at {address}: {reason}; see `ray status` there") from error


def _import_ray() -> Ray:
    # Set before the import, which reads them. Otherwise Ray sends usage statistics, and warns of a
    # future change in how it hides GPUs from workers that request none.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        ray: Ray = import_module("ray")
    except ImportError as error:
        raise RayError("--engine ray needs Ray: pip install 'roost[ray]'") from error
    return ray


def _perform_on(ray: Ray, sweep: Sweep, cases: Sequence[Case]) -> Generator[Finished, None, None]:
    shared = ray.put(sweep)
    task = ray.remote(num_cpus=1, max_retries=1)(_perform)
    ahead = _AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    todo = list(reversed(cases))
    under_way: dict[Any, Case] = {}
    while todo or under_way:
        while todo and len(under_way) < ahead:
            case = todo.pop()
            under_way[task.remote(shared, case)] = case
        ready, _ = ray.wait(list(under_way), num_returns=1)
        for reference in ready:
            case = under_way.pop(reference)
            try:
                finished: Finished = ray.get(reference)
            except ray.exceptions.RayError as error:
                finished = Failed(case, (str(error).splitlines() or [repr(error)])[0])
            yield finished


def _perform(sweep: Sweep, case: Case) -> Finished:
    return sweep.perform(case)
