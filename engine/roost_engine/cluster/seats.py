"""The shared free set: GPUs that one job holds and one more may join.

The exclusive free set, GPUs that no job holds, is in FreeCapacity. A GPU is in one of them at most,
and in neither where two jobs hold it: so there are never three. Which jobs may share is decided in
`sharing`.
"""

from collections.abc import Collection, Iterator, Mapping

from roost_engine.domain.gpu_seat import GpuSeat, gpu_seats_of
from roost_engine.domain.model import JobId, NodeName, NodeShare


class Seats:
    """The seats that jobs hold. Kept only where jobs may share GPUs.

    Attributes:
        gpu_memory_bytes: by node, of its smallest GPU; a node whose GPUs are unknown is missing.
    """

    def __init__(self) -> None:
        self.gpu_memory_bytes: dict[NodeName, int] = {}
        self._gpu_seats: dict[JobId, tuple[GpuSeat, ...]] = {}
        self._holders: dict[tuple[NodeName, int], dict[JobId, int]] = {}  # the seat of each job

    def hold(self, job_id: JobId, shares: tuple[NodeShare, ...]) -> None:
        """Let a job hold these shares, in place of those it held before; none: it holds nothing."""
        for seat in self._gpu_seats.pop(job_id, ()):
            holders = self._holders[seat.node, seat.gpu]
            del holders[job_id]
            if not holders:
                del self._holders[seat.node, seat.gpu]
        seats = tuple(gpu_seats_of(shares))
        if seats:
            self._gpu_seats[job_id] = seats
        for seat in seats:
            self._holders.setdefault((seat.node, seat.gpu), {})[job_id] = seat.seat

    def gpu_seats(self, job_id: JobId) -> tuple[GpuSeat, ...]:
        """Return the seats that a job holds."""
        return self._gpu_seats.get(job_id, ())

    def holders(self, node: NodeName, gpu: int) -> Mapping[JobId, int]:
        """Return the jobs that hold a GPU, and the seat of each."""
        return self._holders.get((node, gpu), {})

    def partners(self, job_id: JobId) -> tuple[JobId, ...]:
        """Return the jobs that share a GPU with one, each once."""
        found: dict[JobId, None] = {}
        for seat in self.gpu_seats(job_id):
            found |= dict.fromkeys(self._holders[seat.node, seat.gpu])
        found.pop(job_id, None)
        return tuple(found)

    def left_alone_count(self, job_id: JobId, node: NodeName, ended: Collection[JobId]) -> int:
        """Return how many of a job's GPUs on a node are free once some jobs have ended."""
        return sum(
            self._holders[seat.node, seat.gpu].keys() <= set(ended)
            for seat in self.gpu_seats(job_id)
            if seat.node == node
        )

    def hosts(self) -> Iterator[tuple[JobId, NodeName, int, tuple[int, ...]]]:
        """Yield the jobs on one node that others could join: job, node, seat, GPUs it has alone.

        In the order in which the jobs began to hold them.
        """
        for job_id, seats in self._gpu_seats.items():
            node, seat = seats[0].node, seats[0].seat
            if any(one.node != node or one.seat != seat for one in seats):
                continue
            alone = tuple(one.gpu for one in seats if len(self._holders[node, one.gpu]) == 1)
            if alone:
                yield job_id, node, seat, alone

    def check_invariants(self) -> None:
        """Raise AssertionError where holders and seats contradict each other."""
        listed: dict[tuple[NodeName, int], dict[JobId, int]] = {}
        for job_id, seats in self._gpu_seats.items():
            for seat in seats:
                listed.setdefault((seat.node, seat.gpu), {})[job_id] = seat.seat
        assert listed == self._holders, "seats drifted"
