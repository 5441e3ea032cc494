"""Snapshots of small queues."""

from collections.abc import Sequence
from math import inf

import numpy as np

from roost_engine.domain.config import Passing
from roost_engine.domain.model import JobId
from roost_engine.forecast.run_time_table import RunTimeTable
from roost_engine.forecast.snapshot import (
    Displacing,
    Part,
    PastArrival,
    RunningJob,
    Snapshot,
    Uses,
    WaitingJob,
    Wish,
)
from roost_engine.prediction.run_time.run_times import BAND_COUNT, RunTimes, band_of


def ends_in(run_s: float, age_s: float = 0.0, limit_s: float | None = None) -> RunTimes:
    """Every such job ends in the band of a run time."""
    fracs = np.zeros(BAND_COUNT)
    fracs[band_of(run_s)] = 1.0
    return RunTimes(fracs, age_s, limit_s)


def any_time() -> RunTimes:
    """Such a job may end in each band from a minute to a day."""
    fracs = np.zeros(BAND_COUNT)
    fracs[band_of(60.0) : band_of(86_400.0)] = 1.0
    return RunTimes(fracs / fracs.sum())


def wish(gpus: int, nodes: int = 1, among: int = 0b1111, tier: int = 0, uses: Uses = ()) -> Wish:
    return Wish(tier, (Part(nodes, gpus, among),), uses)


def waiting(
    number: int,
    wish: int = 0,
    since_s: float = 0.0,
    not_before_s: float = 0.0,
    limit_s: float = inf,
    user: int = 1,
) -> WaitingJob:
    return WaitingJob(
        job_id=JobId(f"{number}"),
        wish=wish,
        key=(number,),
        since_s=since_s,
        not_before_s=not_before_s,
        limit_s=limit_s,
        kind=0,
        user=user,
    )


def running(
    name: str, *held: tuple[int, int], limit_end_s: float = inf, uses: Uses = ()
) -> RunningJob:
    return RunningJob(
        job_id=JobId(name),
        held=held,
        limit_end_s=limit_end_s,
        speed_frac=1.0,
        kind=2,
        user=3,
        uses=uses,
    )


def snapshot(
    *,
    free: Sequence[int],
    wishes: Sequence[Wish],
    waiting: Sequence[WaitingJob] = (),
    waiting_times: Sequence[RunTimes] = (),
    running: Sequence[RunningJob] = (),
    running_times: Sequence[RunTimes] = (),
    arrivals: Sequence[PastArrival] = (),
    arrival_times: Sequence[RunTimes] = (),
    patience_s: float = inf,
    passing: Passing = Passing.EASY,
    at_s: float = 1_000.0,
    quotas: Sequence[float] = (),
    displacing: Displacing | None = None,
) -> Snapshot:
    return Snapshot(
        at_s=at_s,
        free=tuple(free),
        patience_s=patience_s,
        passing=passing,
        wishes=tuple(wishes),
        waiting=tuple(waiting),
        waiting_times=RunTimeTable.of(waiting_times or [any_time() for _ in waiting]),
        running=tuple(running),
        running_times=RunTimeTable.of(running_times or [any_time() for _ in running]),
        arrivals=tuple(arrivals),
        arrivals_since_s=0.0,
        arrival_times=RunTimeTable.of(arrival_times or [any_time() for _ in arrivals]),
        quotas=tuple(quotas),
        displacing=displacing,
    )
