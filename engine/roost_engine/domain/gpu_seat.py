"""A seat on a GPU of a node. A GPU has two seats, so at most two jobs share it.

Slurm has an entry of its own for each: type `g3` is the first seat of GPU 3, `s3` the second. A job
that shares nothing is on the first seat and holds the whole GPU. What jobs hold is a NodeShare, in
which one seat counts for all GPUs.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from roost_engine.domain.model import NodeName, NodeShare

FIRST, SECOND = 0, 1


class GpuSeat(NamedTuple):
    """One seat of one GPU."""

    node: NodeName
    gpu: int
    seat: int

    @property
    def other(self) -> "GpuSeat":
        """The other seat of the GPU."""
        return self._replace(seat=other_seat(self.seat))


def other_seat(seat: int) -> int:
    """Return the seat beside one."""
    return SECOND if seat == FIRST else FIRST


def gpu_seats_of(shares: Iterable[NodeShare]) -> Iterator[GpuSeat]:
    """Yield the seats that a job holds."""
    for share in shares:
        for gpu in share.gpu_indices:
            yield GpuSeat(share.node, gpu, share.seat)


def is_any_taken(seats: Iterable[GpuSeat], taken: Collection[GpuSeat], *, may_share: bool) -> bool:
    """Return whether a job cannot have some seats: they are taken, or those beside them.

    Args:
        seats: that the job would have.
        taken: by another job.
        may_share: whether the two may share GPUs; if not, the other seats count too.
    """
    return any(seat in taken or (not may_share and seat.other in taken) for seat in seats)
