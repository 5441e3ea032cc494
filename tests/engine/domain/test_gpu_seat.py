"""A GPU has two seats; a job that shares nothing has the whole GPU."""

from roost_engine.domain.gpu_seat import (
    FIRST,
    SECOND,
    GpuSeat,
    gpu_seats_of,
    is_any_taken,
    other_seat,
)
from roost_engine.domain.model import NodeName, NodeShare

N1 = NodeName("n1")


def test_a_share_is_a_slot_for_each_gpu() -> None:
    assert list(gpu_seats_of([NodeShare(N1, (2, 5), 1, 0, SECOND)])) == [
        GpuSeat(N1, 2, SECOND),
        GpuSeat(N1, 5, SECOND),
    ]
    assert list(gpu_seats_of([NodeShare(N1, ())])) == []


def test_each_seat_has_another_one() -> None:
    assert (other_seat(FIRST), other_seat(SECOND)) == (SECOND, FIRST)
    assert GpuSeat(N1, 0, FIRST).other == GpuSeat(N1, 0, SECOND)


def test_a_gpu_is_taken_for_all_jobs_but_those_that_share() -> None:
    taken = {GpuSeat(N1, 0, FIRST)}
    assert is_any_taken([GpuSeat(N1, 0, FIRST)], taken, may_share=True)
    assert not is_any_taken([GpuSeat(N1, 0, SECOND)], taken, may_share=True)
    assert is_any_taken([GpuSeat(N1, 0, SECOND)], taken, may_share=False)
    assert not is_any_taken([GpuSeat(N1, 1, FIRST)], taken, may_share=False)
