"""The trace generator: draws synthetic traces with the statistics of a public one.

A job belongs to the burst of its predecessor (same size, seconds later) or begins a new one. Bursts
arrive with the rhythm of day and week, on days that differ in their total. The duration is drawn
from a mixture of log-normals for the job's size class. Numbers: `roost_sim.traces.fitted_traces`;
how well they fit: docs/simulator/traces.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roost_sim.traces.trace import Trace, make_trace

DAY_S = 86_400.0
HOUR_S = 3_600.0
MONDAY_S = 4 * DAY_S  # 5 January 1970, so that weekdays of the trace are those of the fit


@dataclass(frozen=True, slots=True)
class Component:
    """One log-normal of a mixture: its share, and mean and deviation of ln(seconds)."""

    weight: float
    log_mean: float
    log_sigma: float


@dataclass(frozen=True, slots=True)
class SizeClass:
    """The durations of jobs of `from_gpus` GPUs up to the next class."""

    from_gpus: int
    durations: tuple[Component, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceModel:
    """The distributions that the generator draws from.

    Attributes:
        source: the trace that it was fitted on.
        sizes: (GPUs, probability); the probabilities sum to 1.
        classes: by size, ascending.
        longest_s: longer durations are cut to this.
        jobs_per_day: mean over all days.
        day_log_sigma: deviation of ln(jobs of a day) that the weekday does not explain.
        hour_weights: [24], mean 1; local time of the trace.
        weekday_weights: [7], Monday first, mean 1.
        burst_frac: fraction of the jobs that belong to their predecessor's burst.
        burst_gap_s: mean seconds between jobs of a burst.
        models: (name, probability) of the models that jobs train; empty: the trace has none.
    """

    source: str
    sizes: tuple[tuple[int, float], ...]
    classes: tuple[SizeClass, ...]
    longest_s: float
    jobs_per_day: float
    day_log_sigma: float
    hour_weights: tuple[float, ...]
    weekday_weights: tuple[float, ...]
    burst_frac: float
    burst_gap_s: float
    models: tuple[tuple[str, float], ...] = ()


def generate(
    model: TraceModel,
    job_count: int,
    seed: int,
    *,
    jobs_per_day: float | None = None,
    max_gpu_count: int | None = None,
    is_batch: bool = False,
) -> Trace:
    """Draw a trace. The same arguments give the same trace.

    Args:
        model: the distributions.
        job_count: number of jobs.
        seed: of the random numbers.
        jobs_per_day: in place of the model's; Trace.at_load sets a load.
        max_gpu_count: larger sizes are left out, the others drawn in proportion.
        is_batch: all jobs arrive at once, in the order in which they were drawn.

    Raises:
        ValueError: no job is wanted, or no size is small enough.
    """
    check_counts(job_count, jobs_per_day)
    streams = np.random.SeedSequence(seed).spawn(5)
    rng_size, rng_burst, rng_arrival, rng_duration, rng_model = map(np.random.default_rng, streams)
    is_new = rng_burst.random(job_count) >= model.burst_frac
    is_new[0] = True
    burst = np.cumsum(is_new) - 1
    sizes = _draw_sizes(model, int(burst[-1]) + 1, max_gpu_count, rng_size)[burst]
    gaps_s = np.where(is_new, 0.0, rng_burst.exponential(model.burst_gap_s, job_count))
    per_job = (jobs_per_day or model.jobs_per_day) / job_count
    submit_s = _submissions(model, is_new, gaps_s, per_job, rng_arrival)
    return make_trace(
        f"generated like {model.source}, seed {seed}",
        np.zeros(job_count) if is_batch else np.round(submit_s - submit_s.min()),
        draw_durations(model, sizes, rng_duration),
        sizes.astype(np.int32),
        model_id=_draw_models(model, job_count, rng_model),
        model_names=[name for name, _ in model.models],
        epoch_of_zero_s=None if is_batch else MONDAY_S + float(submit_s.min()),
    )


def draw_durations(
    model: TraceModel, sizes: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw a duration for each job, float64 [job], whole seconds from 1 on."""
    durations_s = np.empty(len(sizes))
    bounds = [size_class.from_gpus for size_class in model.classes]
    class_of = np.searchsorted(bounds, sizes, side="right") - 1
    for index, size_class in enumerate(model.classes):
        members = np.flatnonzero(class_of == index)
        weights = np.array([part.weight for part in size_class.durations])
        part = rng.choice(len(weights), size=len(members), p=weights / weights.sum())
        means = np.array([part.log_mean for part in size_class.durations])[part]
        sigmas = np.array([part.log_sigma for part in size_class.durations])[part]
        durations_s[members] = np.exp(rng.normal(means, sigmas))
    return np.clip(np.round(durations_s), 1.0, model.longest_s)


def _draw_models(
    model: TraceModel, count: int, rng: np.random.Generator
) -> NDArray[np.int32] | None:
    if not model.models:
        return None
    weights = np.array([weight for _, weight in model.models])
    chosen = rng.choice(len(weights), size=count, p=weights / weights.sum())
    return chosen.astype(np.int32)


def _draw_sizes(
    model: TraceModel, count: int, max_gpu_count: int | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    sizes, shares = fitting_sizes(model, max_gpu_count)
    return rng.choice(sizes, size=count, p=shares)


def fitting_sizes(
    model: TraceModel, max_gpu_count: int | None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the sizes up to a largest one, int64 [size], and their shares, float64 [size].

    Raises:
        ValueError: no size is small enough.
    """
    fitting = [pair for pair in model.sizes if max_gpu_count is None or pair[0] <= max_gpu_count]
    if not fitting:
        raise ValueError(f"no size of {model.source} is {max_gpu_count} GPUs or less")
    weights = np.array([weight for _, weight in fitting])
    sizes = np.array([size for size, _ in fitting], dtype=np.int64)
    return sizes, weights / weights.sum()


def _submissions(
    model: TraceModel,
    is_new: NDArray[np.bool_],
    gaps_s: NDArray[np.float64],
    bursts_per_day_per_burst: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Submission of each job, float64 [job]: the start of its burst plus the gaps since."""
    burst = np.cumsum(is_new) - 1
    starts_s = burst_starts(model, int(burst[-1]) + 1, bursts_per_day_per_burst, rng)
    since_s = np.cumsum(gaps_s)
    submit_s: NDArray[np.float64] = starts_s[burst] + since_s - since_s[is_new][burst]
    return submit_s


def check_counts(job_count: int, jobs_per_day: float | None) -> None:
    """Raise ValueError unless a generator can draw so many jobs."""
    if job_count < 1:
        raise ValueError(f"want 1 job or more, got {job_count}")
    if jobs_per_day is not None and not jobs_per_day > 0:
        raise ValueError(f"want more than 0 jobs a day, got {jobs_per_day}")


def burst_starts(
    model: TraceModel, count: int, bursts_per_day_per_burst: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Ascending start times, float64 [burst], seconds from a Monday's midnight.

    Draws them on a clock that ticks with the rate and maps them back to wall time.
    """
    per_day = bursts_per_day_per_burst * count
    days = int(np.ceil(count / per_day * 1.5)) + 21
    factor = np.exp(rng.normal(-(model.day_log_sigma**2) / 2, model.day_log_sigma, days))
    by_day = factor * np.array(model.weekday_weights)[np.arange(days) % 7] * per_day
    per_hour = np.outer(by_day, np.array(model.hour_weights) / 24.0).ravel()
    expected = np.concatenate([[0.0], np.cumsum(per_hour)])
    ticks = np.cumsum(rng.exponential(1.0, count))
    mean_rate = max(float(expected[-1]) / (len(per_hour) * HOUR_S), 1e-12)
    beyond_s = np.maximum(ticks - expected[-1], 0.0) / mean_rate
    wall_s: NDArray[np.float64] = np.interp(ticks, expected, np.arange(len(expected)) * HOUR_S)
    wall_s += beyond_s
    return wall_s
