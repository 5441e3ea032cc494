"""The state that shows of a cluster what a daemon's would."""

from roost_engine.job_record import JobState
from roostd.rpc.messages import daemon_status, nodes
from roostd.testing.busy_state import GPU_COUNT, StillClock, busy_state


def test_most_gpus_are_in_use_and_every_node_reports() -> None:
    state = busy_state(20)
    status = daemon_status.status(state)
    assert (status.node_count, status.probe_count) == (20, 20)
    assert 0 < status.gpu_free_count < status.gpu_count // 2
    assert status.waiting_job_count >= 3
    state.engine.check_invariants()


def test_the_same_seed_gives_the_same_state() -> None:
    first, second, other = busy_state(6), busy_state(6), busy_state(6, seed=2)
    assert nodes.holders(first) == nodes.holders(second) != nodes.holders(other)


def test_jobs_were_placed_by_the_engine_itself() -> None:
    state = busy_state(4)
    running = [one for _, one in state.engine.records() if one.state is JobState.RUNNING]
    assert running
    assert all(one.placement is not None for one in running)
    assert sum(len(share.gpu_indices) for one in running for share in one.shares) <= 4 * GPU_COUNT


def test_the_clock_stands_still() -> None:
    clock = StillClock(at_s=5.0, zero_epoch_s=1_000.0)
    assert (clock.now_s(), clock.to_epoch_s(5.0), clock.to_engine_s(1_005.0)) == (5.0, 1_005.0, 5.0)
    assert clock.follow_wall() == 0.0
