"""One simulation of the queue in which waiting jobs displace running ones."""

from dataclasses import replace
from math import inf

from tests.engine.forecast.scenes import running, snapshot, waiting, wish
from tests.engine.forecast.test_play import AT_S, entrants

from roost_engine.forecast.play import Entrant
from roost_engine.forecast.preempting_play import PreemptingPlay
from roost_engine.forecast.snapshot import (
    Displacing,
    RunningJob,
    Snapshot,
    Stoppable,
    WaitingJob,
    Wish,
)

LEASE_S = 360.0
BY_SERVICE = Displacing(2, grows=True, lease_s=LEASE_S)


def wanted(gpus: int, nodes: int = 1) -> Wish:
    return replace(wish(gpus, nodes), may_displace=True)


def waits(number: int, value: float = 0.0, wish: int = 0) -> WaitingJob:
    return replace(waiting(number, wish), key=(0, 0, value, number), is_stoppable=True)


def runs(
    name: str, *held: tuple[int, int], value: float, from_s: float = 0.0, wish: int = 0
) -> RunningJob:
    return replace(running(name, *held), stoppable=Stoppable(from_s, (0, 0, value, -1), wish, inf))


def starts(found: Snapshot, rest_s: list[float], run_s: list[float]) -> list[float]:
    """Seconds from now."""
    jobs = [
        job._replace(is_stoppable=found.waiting[job.number].is_stoppable)
        for job in entrants(found, run_s)
    ]
    play = PreemptingPlay(found, rest_s, jobs)
    return [start_s - AT_S for start_s in play.starts_s(AT_S + 1e6)]


def test_a_job_displaces_the_one_that_has_had_most() -> None:
    found = snapshot(
        free=[0, 0],
        wishes=[wanted(4)],
        waiting=[waits(1)],
        running=[runs("a", (0, 4), value=10.0), runs("b", (1, 4), value=90.0)],
        displacing=BY_SERVICE,
    )
    play = PreemptingPlay(found, [500.0, 500.0], entrants(found, [100.0]))
    assert play.starts_s(AT_S + 1e6) == [AT_S]
    assert -1 in play._runs
    assert -2 not in play._runs


def test_a_displaced_job_waits_again_and_continues_with_what_is_left() -> None:
    found = snapshot(
        free=[0],
        wishes=[wanted(4)],
        waiting=[waits(1), waits(2, value=1e9)],
        running=[runs("a", (0, 4), value=90.0)],
        displacing=BY_SERVICE,
    )
    # Job 1 runs for 100 s, then what is left of a, then job 2, which has had more.
    assert starts(found, [500.0], [100.0, 1.0]) == [0.0, 600.0]


def test_a_job_that_has_had_less_is_not_displaced_until_it_has_had_more() -> None:
    found = snapshot(
        free=[0],
        wishes=[wanted(4)],
        waiting=[waits(1, value=1_000.0)],
        running=[runs("a", (0, 4), value=0.0)],
        displacing=BY_SERVICE,
    )
    # 4 GPUs: more than 1,000 GPU-seconds after 250 s; reviews are at multiples of 360 s.
    assert starts(found, [5_000.0], [10.0]) == [1_440.0 - AT_S]


def test_a_job_is_safe_for_a_lease() -> None:
    found = snapshot(
        free=[0],
        wishes=[wanted(4)],
        waiting=[waits(1)],
        running=[runs("a", (0, 4), value=90.0, from_s=AT_S + 300.0)],
        displacing=BY_SERVICE,
    )
    assert starts(found, [5_000.0], [10.0]) == [1_440.0 - AT_S]


def test_a_job_without_permission_neither_displaces_nor_is_displaced() -> None:
    found = snapshot(
        free=[0],
        wishes=[wish(4), wanted(4)],
        waiting=[waits(1), waits(2, wish=1)],
        running=[running("a", (0, 4))],
        displacing=BY_SERVICE,
    )
    assert starts(found, [500.0], [10.0, 10.0]) == [500.0, 510.0]
    found = replace(found, running=(runs("a", (0, 4), value=90.0),))
    assert starts(found, [500.0], [10.0, 10.0]) == [10.0, 0.0]


def test_a_gang_displaces_as_few_as_it_needs() -> None:
    found = snapshot(
        free=[0, 2, 0],
        wishes=[wanted(4, nodes=2)],
        waiting=[waits(1)],
        running=[
            runs("a", (0, 4), value=50.0),
            runs("b", (1, 2), value=90.0),
            runs("c", (2, 4), value=70.0),
        ],
        displacing=BY_SERVICE,
    )
    play = PreemptingPlay(found, [500.0] * 3, entrants(found, [100.0]))
    assert play.starts_s(AT_S + 1e6) == [AT_S]
    assert -1 in play._runs
    assert play.at_s == AT_S


def test_jobs_to_come_displace_too() -> None:
    found = snapshot(
        free=[0],
        wishes=[wanted(4)],
        waiting=[waits(1, value=1e6)],
        running=[runs("a", (0, 4), value=1e9, from_s=AT_S + 1e5)],
        displacing=BY_SERVICE,
    )
    coming = Entrant((0, 0, 0.0, 9), 1, AT_S + 5.0, AT_S + 5.0, 0, 30.0, inf, True)
    play = PreemptingPlay(found, [50.0], entrants(found, [10.0]), [coming])
    assert play.starts_s(AT_S + 1e6) == [AT_S + 80.0]
