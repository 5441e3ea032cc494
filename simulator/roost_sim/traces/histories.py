"""Histories: generated jobs that have users and names, and repeat as a site's jobs do.

A user works in sessions: one job after the other, mostly the same job again, submitted soon after
the last one has ended or beside it. The user, and then the user's job, is copied from an earlier
one: the more of them there are, the likelier one more is. That makes few users and names frequent
and many rare. A run time, too, repeats an earlier one of the same user, name and GPUs, or differs.

Sizes and run times as a whole are those of the trace model: only which job has which size and which
run time is decided here. Numbers: `roost_sim.traces.fitted_histories`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_sim.traces.generator import (
    MONDAY_S,
    TraceModel,
    burst_starts,
    check_counts,
    draw_durations,
    fitting_sizes,
)
from roost_sim.traces.job_names import job_names
from roost_sim.traces.trace import Labels, Status, Trace, make_trace

LONGEST_GAP_S = 3_600.0  # after a longer one a session is over


@dataclass(frozen=True, slots=True)
class LogNormal:
    """Mean and deviation of ln(value)."""

    log_mean: float
    log_sigma: float

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Draw values, float64 [count]."""
        return np.exp(rng.normal(self.log_mean, self.log_sigma, count))


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryModel:
    """How users repeat their jobs.

    Attributes:
        source: the trace that it was fitted on.
        new_user_frac: fraction of the sessions that are a new user's first.
        user_memory: sessions that the user of the next one may be copied from.
        session_jobs: jobs of a session.
        switch_frac: fraction of the jobs in a session that differ from the one before in name or
            GPUs.
        switch_between_frac: the same, of the first jobs of sessions.
        new_kind_frac: fraction of those jobs whose name or GPUs their user has not used before.
        known_name_frac: fraction of those jobs whose name the user has used, on other GPUs.
        patience_s: how long a user waits for a job before submitting the next one beside it.
        gap_s: from the end of the job, or its submission, to that of the next one.
        user_share, kind_share: fractions of the variance of run times that are the user's, and
            those of its name and GPUs.
        repeat_frac: fraction of the jobs that run as long as an earlier one of their kind.
        repeat_depth: mean number of jobs of the kind since that one.
        repeat_sigma: deviation of the difference between the two, in deviations of run times.
        ends: by tenths of all run times, the shortest first: the fractions that complete, fail and
            are cancelled.
    """

    source: str
    new_user_frac: float
    user_memory: int
    session_jobs: LogNormal
    switch_frac: float
    switch_between_frac: float
    new_kind_frac: float
    known_name_frac: float
    patience_s: LogNormal
    gap_s: LogNormal
    user_share: float
    kind_share: float
    repeat_frac: float
    repeat_depth: float
    repeat_sigma: LogNormal
    ends: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True, slots=True)
class _Sessions:
    """The jobs in the order in which sessions begin: whose they are and what is submitted.

    Attributes:
        begins: bool [job], the first of its session.
        user: int64 [job].
        kind: int64 [job], a name on a number of GPUs.
        name_of: int64 [kind].
    """

    begins: NDArray[np.bool_]
    user: NDArray[np.int64]
    kind: NDArray[np.int64]
    name_of: NDArray[np.int64]


def generate_history(
    model: TraceModel,
    history: HistoryModel,
    job_count: int,
    seed: int,
    *,
    jobs_per_day: float | None = None,
    max_gpu_count: int | None = None,
    is_batch: bool = False,
) -> Trace:
    """Draw a trace with users, names and ends. The same arguments give the same trace.

    Args:
        model: the distributions of sizes, run times and arrivals.
        history: how users repeat their jobs.
        job_count: number of jobs.
        seed: of the random numbers.
        jobs_per_day: in place of the model's; Trace.at_load sets a load.
        max_gpu_count: larger sizes are left out, the others drawn in proportion.
        is_batch: all jobs arrive at once, in the order in which they were drawn.

    Raises:
        ValueError: no job is wanted, or no size is small enough.
    """
    check_counts(job_count, jobs_per_day)
    streams = np.random.SeedSequence(seed).spawn(7)
    rngs = [np.random.default_rng(stream) for stream in streams]
    sessions = _draw_sessions(history, job_count, rngs[0])
    sizes = _sizes(model, sessions, max_gpu_count, rngs[1])[sessions.kind]
    drawn_s = draw_durations(model, sizes, rngs[2])
    durations_s = _reordered(model, sizes, drawn_s, _levels(history, sessions, rngs[3]))
    per_day = jobs_per_day or model.jobs_per_day
    submit_s = _submissions(model, history, sessions, durations_s, per_day, rngs[4])
    first_s = float(submit_s.min())
    names = Labels(
        sessions.name_of[sessions.kind].astype(np.int32),
        job_names(int(sessions.name_of.max()) + 1, rngs[6]),
    )
    return make_trace(
        f"generated like {model.source}, with users of {history.source}, seed {seed}",
        np.zeros(job_count) if is_batch else np.round(submit_s - first_s),
        durations_s,
        sizes.astype(np.int32),
        user_id=sessions.user.astype(np.int32),
        user_names=[f"user{number + 1}" for number in range(int(sessions.user.max()) + 1)],
        labels={"job_name": names},
        status=_ends(history, durations_s, rngs[5]),
        epoch_of_zero_s=None if is_batch else MONDAY_S + first_s,
    )


def _draw_sessions(history: HistoryModel, job_count: int, rng: np.random.Generator) -> _Sessions:
    """Draw users, kinds and sessions of jobs; sessions before the first only make users known."""
    lengths = np.maximum(np.round(history.session_jobs.draw(job_count, rng)), 1).astype(np.int64)
    count = int(np.searchsorted(np.cumsum(lengths), job_count)) + 1
    lengths = lengths[:count]
    begins = np.zeros(int(lengths.sum()), dtype=bool)
    begins[np.cumsum(lengths) - lengths] = True
    users = _copied(history, count + history.user_memory, rng)[history.user_memory :]
    _, users = np.unique(users, return_inverse=True)  # those of earlier sessions have no job
    user = np.repeat(users, lengths)[:job_count]
    return _with_kinds(history, begins[:job_count], user, rng)


def _copied(history: HistoryModel, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the user of each session: a new one, or that of one of the last sessions.

    The distance to that session is log-uniform: users are busy for a while, and come back.
    """
    is_new = rng.random(count) < history.new_user_frac
    back = np.exp(rng.random(count) * np.log(history.user_memory)).astype(np.int64)
    users, newest = np.zeros(count, dtype=np.int64), 0
    for session in range(1, count):
        if is_new[session] or back[session] > session:
            newest += 1
            users[session] = newest
        else:
            users[session] = users[session - back[session]]
    return users


def _with_kinds(
    history: HistoryModel,
    begins: NDArray[np.bool_],
    user: NDArray[np.int64],
    rng: np.random.Generator,
) -> _Sessions:
    """Draw the kind of each job: that of its user's last job, an earlier one, or a new one."""
    count = len(user)
    switch_frac = np.where(begins, history.switch_between_frac, history.switch_frac)
    switches = rng.random(count) < switch_frac
    is_new = rng.random(count) < history.new_kind_frac
    has_known_name = rng.random(count) < history.known_name_frac
    where = rng.random(count)
    past: dict[int, list[int]] = {}  # kinds of the user's jobs
    kinds, newest_name = np.zeros(count, dtype=np.int64), -1
    name_of = list[int]()
    for job, owner in enumerate(user.tolist()):
        before = past.setdefault(owner, [])
        if before and not switches[job]:
            kind = before[-1]
        elif before and not is_new[job]:
            kind = before[-int(len(before) ** where[job])]  # log-uniform, as of users
        else:
            kind = len(name_of)
            if before and has_known_name[job]:
                name_of.append(name_of[before[-1]])
            else:
                newest_name += 1
                name_of.append(newest_name)
        before.append(kind)
        kinds[job] = kind
    return _Sessions(begins, user, kinds, np.array(name_of))


def _sizes(
    model: TraceModel, sessions: _Sessions, max_gpu_count: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw the GPUs of each kind, int64 [kind], so that jobs have the model's shares of sizes.

    A kind of many jobs takes a size that lacks as many; chance decides among these by what they
    lack. Without that, a few busy users would decide the shares of a whole trace.
    """
    sizes, shares = fitting_sizes(model, max_gpu_count)
    jobs_of = np.bincount(sessions.kind, minlength=len(sessions.name_of))
    lacks = shares * len(sessions.kind)
    chosen = np.zeros(len(jobs_of), dtype=np.int64)
    for kind, where in zip(
        np.argsort(-jobs_of, kind="stable"), rng.random(len(jobs_of)), strict=True
    ):
        enough = np.where(lacks >= jobs_of[kind], lacks, 0.0)
        weights = np.cumsum(enough if enough.any() else np.maximum(lacks, 1e-9))
        index = min(int(np.searchsorted(weights, where * weights[-1], "right")), len(sizes) - 1)
        chosen[kind] = sizes[index]
        lacks[index] -= jobs_of[kind]
    return chosen


def _levels(
    history: HistoryModel, sessions: _Sessions, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw how long each job runs compared with others, float64 [job], in deviations."""
    count = len(sessions.kind)
    of_user = rng.normal(0.0, np.sqrt(history.user_share), int(sessions.user.max()) + 1)
    of_kind = rng.normal(0.0, np.sqrt(history.kind_share), len(sessions.name_of))
    own_sigma = np.sqrt(1.0 - history.user_share - history.kind_share)
    center = of_user[sessions.user] + of_kind[sessions.kind]
    fresh = center + rng.normal(0.0, own_sigma, count)
    repeats = rng.random(count) < history.repeat_frac
    back = rng.geometric(1.0 / history.repeat_depth, count)
    differs = rng.normal(0.0, history.repeat_sigma.draw(count, rng))
    past: dict[int, list[float]] = {}
    levels = np.zeros(count)
    for job, kind in enumerate(sessions.kind.tolist()):
        before = past.setdefault(kind, [])
        level = float(fresh[job])
        if repeats[job] and before:
            level = before[-min(int(back[job]), len(before))] + float(differs[job])
        before.append(level)
        levels[job] = level
    return levels


def _reordered(
    model: TraceModel,
    sizes: NDArray[np.int64],
    durations_s: NDArray[np.float64],
    levels: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Give the durations of each size class to its jobs in the order of their levels."""
    bounds = [size_class.from_gpus for size_class in model.classes]
    class_of = np.searchsorted(bounds, sizes, side="right") - 1
    reordered = durations_s.copy()
    for index in range(len(bounds)):
        members = np.flatnonzero(class_of == index)
        reordered[members[np.argsort(levels[members], kind="stable")]] = np.sort(
            durations_s[members]
        )
    return reordered


def _submissions(
    model: TraceModel,
    history: HistoryModel,
    sessions: _Sessions,
    durations_s: NDArray[np.float64],
    jobs_per_day: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Draw the submission of each job, float64 [job]: the start of its session plus the gaps."""
    count = len(durations_s)
    session = np.cumsum(sessions.begins) - 1
    starts_s = burst_starts(model, int(session[-1]) + 1, jobs_per_day / count, rng)
    waited_s = np.where(durations_s <= history.patience_s.draw(count, rng), durations_s, 0.0)
    gaps_s = np.minimum(history.gap_s.draw(count, rng), LONGEST_GAP_S) + np.concatenate(
        [[0.0], waited_s[:-1]]
    )
    gaps_s[sessions.begins] = 0.0
    since_s = np.cumsum(gaps_s)
    submit_s: NDArray[np.float64] = starts_s[session] + since_s - since_s[sessions.begins][session]
    return submit_s


def _ends(
    history: HistoryModel, durations_s: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Draw how each job ended, by the tenth of run times that it is in."""
    rank = np.argsort(np.argsort(durations_s, kind="stable"), kind="stable")
    tenth = rank * len(history.ends) // len(durations_s)
    bounds = np.cumsum(history.ends, axis=1)[tenth]
    end = (rng.random(len(durations_s))[:, None] >= bounds[:, :2]).sum(axis=1)
    statuses = np.array([Status.COMPLETED, Status.FAILED, Status.CANCELLED], dtype=np.uint8)
    found: NDArray[np.uint8] = statuses[end]
    return found
