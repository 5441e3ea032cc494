import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_sim.figures.sharing import GpuHolds, PairLog, sharing_of

ONE, TWO, NODE = JobId("1"), JobId("2"), NodeName("n1")


def test_speed_beside_partners_is_a_mean_over_time() -> None:
    now_s = [0.0]
    log = PairLog(lambda: now_s[0])
    log.note(ONE, 0.9)
    now_s[0] = 100.0
    log.note(ONE, 0.5)
    now_s[0] = 400.0
    log.note(ONE, None)
    log.note(TWO, 0.8)  # a partner that leaves at once
    log.note(TWO, None)
    assert list(log.speeds()) == [ONE]
    assert log.speeds()[ONE] == pytest.approx((400.0, (100 * 0.9 + 300 * 0.5) / 400))
    figures = sharing_of(log)
    assert figures.jobs == 1
    assert figures.hours == pytest.approx(400 / 3600)
    assert figures.slowed_frac == (1.0, 1.0, 0.0)


def test_no_job_that_shared_gives_no_speed() -> None:
    assert sharing_of(PairLog()).mean_speed_frac is None


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 50), st.integers(0, 1)),
        min_size=1,
        max_size=20,
    )
)
def test_a_gpu_is_doubled_just_when_two_jobs_hold_it(jobs: list[tuple[int, int, int]]) -> None:
    """Against a count second by second; a job that would be a third one is left out."""
    held: dict[int, int] = {}
    taken = list[tuple[int, int]]()
    for begin, length, _ in jobs:
        seconds = range(begin, begin + length)
        if all(held.get(second, 0) < 2 for second in seconds):
            taken.append((begin, begin + length))
            for second in seconds:
                held[second] = held.get(second, 0) + 1
    gpu_holds, doubled = GpuHolds(), dict[int, int]()
    for begin, end in sorted(taken, key=lambda one: one[1]):
        for node, since, until in gpu_holds.doubled((NodeShare(NODE, (3,)),), begin, end):
            assert node == NODE
            for second in range(int(since), int(until)):
                doubled[second] = doubled.get(second, 0) + 1
    assert doubled == {second: 1 for second, count in held.items() if count == 2}
