"""Neighbours: how much jobs on one node slow each other; they share PCIe, memory and the NIC.

Every public table of co-located jobs (Gavel, MISO, Lucid) measured two jobs on one GPU. Here a GPU
has one job, so those ratios do not apply. What was measured with a GPU a job each is ResNet-50 on
Philly's P100 servers, spread over two servers, alone and beside other ResNet-50 jobs on the same
servers: 98.0 and 75.6 images/s, at 49.6 % GPU utilisation when alone (Jeon et al., ATC 2019, table
of locality and co-location; quoted second-hand, not checked against the paper). If all the time in
which GPUs do not compute is exposed communication, that time grew by a factor of
1 + (98.0 / 75.6 - 1) / (1 - 0.496) = 1.588 beside neighbours that communicated 0.504 of the time.
One measurement gives one constant; proportional growth is an assumption.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from roost_engine.domain.model import JobId, NodeName, NodeShare

_EXPOSED_FRAC = 1 - 0.496
_GROWTH = (98.0 / 75.6 - 1) / _EXPOSED_FRAC
STRETCH_PER_PRESSURE = _GROWTH / _EXPOSED_FRAC


@dataclass(frozen=True, slots=True)
class _Guest:
    gpus_on: dict[NodeName, int]
    duty_frac: float


@dataclass(slots=True)
class NodeNeighbours:
    """The jobs on each node, and how much of the time they use what the node shares.

    Attributes:
        gpu_count_of: GPUs of each node.
    """

    gpu_count_of: dict[NodeName, int]
    _guests: dict[JobId, _Guest] = field(default_factory=dict)
    _jobs_on: dict[NodeName, dict[JobId, None]] = field(default_factory=dict)
    _duty_gpus: dict[NodeName, float] = field(default_factory=dict)

    def add(
        self, job_id: JobId, shares: Iterable[NodeShare], duty_frac: float
    ) -> tuple[JobId, ...]:
        """Add a job to its nodes.

        Args:
            job_id: a job that was not added yet.
            shares: the GPUs that it holds.
            duty_frac: fraction of the time for which it uses shared parts of the node when alone.

        Returns:
            The other jobs whose stretch changed, each once.
        """
        gpus_on = {share.node: len(share.gpu_indices) for share in shares}
        self._guests[job_id] = guest = _Guest(gpus_on, duty_frac)
        affected = self._affected_by(guest)
        for node in gpus_on:
            self._jobs_on.setdefault(node, {})[job_id] = None
            self._add_up(node)
        return affected

    def remove(self, job_id: JobId) -> tuple[JobId, ...]:
        """Remove a job from its nodes; returns the jobs whose stretch changed.

        Raises:
            KeyError: the job was not added.
        """
        guest = self._guests.pop(job_id)
        for node in guest.gpus_on:
            del self._jobs_on[node][job_id]
            self._add_up(node)
        return self._affected_by(guest)

    def stretch(self, job_id: JobId) -> float:
        """Return how many times longer a job's exposed communication takes, 1 or more.

        The pressure on a node is the mean duty of the GPUs that other jobs could hold; an idle GPU
        counts 0. A job on several nodes waits for the node under most pressure. A job without duty
        is not slowed.

        Raises:
            KeyError: the job was not added.
        """
        own = self._guests[job_id]
        if not own.duty_frac:
            return 1.0
        pressure = max([self._pressure(node, own.duty_frac, n) for node, n in own.gpus_on.items()])
        return 1.0 + STRETCH_PER_PRESSURE * pressure

    def _affected_by(self, guest: _Guest) -> tuple[JobId, ...]:
        """Return the jobs with duty on the same nodes; none if the guest has no duty."""
        if not guest.duty_frac:
            return ()
        return tuple(
            dict.fromkeys(
                job
                for node in guest.gpus_on
                for job in self._jobs_on.get(node, ())
                if self._guests[job].duty_frac
            )
        )

    def _add_up(self, node: NodeName) -> None:
        """Update the duty of all GPUs of a node. Summed each time: increments would drift."""
        guests = [self._guests[job] for job in self._jobs_on[node]]
        self._duty_gpus[node] = sum([guest.duty_frac * guest.gpus_on[node] for guest in guests])

    def _pressure(self, node: NodeName, own_duty_frac: float, own_gpus: int) -> float:
        other_gpus = self.gpu_count_of[node] - own_gpus
        if not other_gpus:
            return 0.0
        return max(self._duty_gpus[node] - own_duty_frac * own_gpus, 0.0) / other_gpus
