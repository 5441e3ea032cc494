import time

import pytest

from roostd.ops.clock import MonotonicClock


def test_engine_time_starts_at_zero_and_never_runs_backwards() -> None:
    clock = MonotonicClock.resume(0.0, None)
    times_s = [clock.now_s() for _ in range(1000)]

    assert 0.0 <= times_s[0] < 1.0
    assert times_s == sorted(times_s)


def test_time_that_passed_while_the_daemon_was_away_counts() -> None:
    clock = MonotonicClock.resume(50.0, time.time() - 500.0)

    assert clock.now_s() == pytest.approx(500.0, abs=1.0)


def test_a_wall_clock_that_was_set_back_does_not_take_engine_time_back() -> None:
    clock = MonotonicClock.resume(5_000.0, time.time() + 3600.0)

    assert clock.now_s() >= 5_000.0


def test_slurm_s_times_map_there_and_back() -> None:
    clock = MonotonicClock(1000.0, 1_800_000_000.0)

    assert clock.to_engine_s(1_800_000_060.0) == 1060.0
    assert clock.to_epoch_s(1060.0) == 1_800_000_060.0


class Wall:
    """A wall clock that can be set, and a monotonic one."""

    def __init__(self) -> None:
        self.epoch_s, self.uptime_s = 1_800_000_000.0, 50.0

    def advance(self, seconds: float) -> None:
        self.epoch_s += seconds
        self.uptime_s += seconds


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_slurm_s_times_follow_a_wall_clock_that_was_set(step_s: float) -> None:
    wall = Wall()
    clock = MonotonicClock(
        10.0, wall.epoch_s, monotonic=lambda: wall.uptime_s, wall=lambda: wall.epoch_s
    )
    begin_s = wall.epoch_s + 7200.0
    wall.advance(60.0)
    wall.epoch_s += step_s

    assert clock.follow_wall() == step_s
    assert clock.follow_wall() == 0.0
    assert clock.now_s() == 70.0
    assert clock.to_engine_s(begin_s) == 10.0 + 7200.0 - step_s  # when the wall clock shows begin_s


def test_a_wall_clock_that_is_slewed_changes_no_time() -> None:
    wall = Wall()
    clock = MonotonicClock(
        10.0, wall.epoch_s, monotonic=lambda: wall.uptime_s, wall=lambda: wall.epoch_s
    )
    wall.epoch_s += 0.9

    assert clock.follow_wall() == 0.0
    assert clock.to_engine_s(1_800_000_060.0) == 70.0
