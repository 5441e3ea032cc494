"""When Slurm is polled next."""

import asyncio
import time

import pytest

from roostd.app.polls.poll_schedule import (
    _AFTER_SUBMIT_S,
    _BURST_COUNT,
    _BURST_POLL_S,
    PollSchedule,
)


async def took_s(schedule: PollSchedule) -> float:
    """For how long the schedule lets wait."""
    began_s = time.monotonic()
    async with asyncio.timeout(60):
        await schedule.until_due()
    return time.monotonic() - began_s


@pytest.fixture
def schedule() -> PollSchedule:
    """With the nodes read just now, and not due for a minute."""
    schedule = PollSchedule()
    schedule.note_nodes_read(60.0)
    return schedule


async def test_the_first_poll_is_due_at_once_with_the_nodes() -> None:
    schedule = PollSchedule()
    assert await took_s(schedule) < 30.0
    assert schedule.are_nodes_due()


async def test_polls_that_are_overdue_become_one(schedule: PollSchedule) -> None:
    schedule.add((0.0, 0.0, 50.0))
    assert await took_s(schedule) < 30.0
    assert len(schedule._polls_due) == 1
    assert not schedule.are_nodes_due()


async def test_a_new_poll_wakes_the_waiting_one(schedule: PollSchedule) -> None:
    waiting = asyncio.create_task(took_s(schedule))
    await asyncio.sleep(0.01)
    schedule.read_nodes()
    assert await waiting < 30.0
    assert schedule.are_nodes_due()


async def test_an_expensive_poll_puts_off_the_next_unless_it_is_urgent(
    schedule: PollSchedule,
) -> None:
    began_s = time.monotonic()
    schedule.pause_after(0.05)
    schedule.add((0.0,))
    await schedule.until_due()
    assert time.monotonic() - began_s > 0.05 / 0.15  # 15 % of the time at most
    schedule.pause_after(5.0)
    schedule.add_urgent()
    assert await took_s(schedule) < 30.0  # and not 5 / 0.15


def test_nodes_in_transition_are_due_within_a_second_and_after_a_failure_in_two(
    schedule: PollSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.monotonic()
    schedule.follow_transition()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 1.1)
    assert schedule.are_nodes_due()
    schedule.retry()
    assert not schedule.are_nodes_due()
    monkeypatch.setattr(time, "monotonic", lambda: now_s + 3.2)
    assert schedule.are_nodes_due()


def test_a_burst_ends_with_a_poll_that_finds_its_last_job(
    schedule: PollSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_s = time.monotonic()
    for tick in range(300):  # 3 s of a job in each 10 ms; no poll is ever run
        monkeypatch.setattr(time, "monotonic", lambda now_s=began_s + tick / 100: now_s)
        schedule.add_submissions(1)
        if tick >= _BURST_COUNT:
            assert max(schedule._polls_due)[0] >= time.monotonic() + _BURST_POLL_S
    count = len(schedule._polls_due) - len(_AFTER_SUBMIT_S) * (_BURST_COUNT - 1)
    assert count <= 6  # in 3 s


async def test_a_burst_of_submissions_shares_polls(
    schedule: PollSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule.add_submissions(1)
    assert await took_s(schedule) < 30.0
    burst = PollSchedule()
    burst.note_nodes_read(60.0)
    for _ in range(100):
        burst.add_submissions(1)
    polls = 0
    while burst._polls_due:
        await burst.until_due()
        polls += 1
    assert polls <= len(_AFTER_SUBMIT_S) * _BURST_COUNT  # overdue ones become one
    now_s = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(time, "monotonic", lambda: now_s)
        for _ in range(_BURST_COUNT):
            burst._submitted_s.append(time.monotonic())
        burst.add_submissions(50)
        assert len(burst._polls_due) == 2
        burst.add_submissions(50)
        assert len(burst._polls_due) == 2
