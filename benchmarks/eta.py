"""How well `roostctl eta` is calibrated: forecasts during a simulation against what then happens.

At random moments of a simulation the queue is played forward as roostd does it, from what the
engine knows then; later the starts and ends are known. Each forecast is also corrected by how wrong
the earlier ones were, as roostd does it: figures of a `raw_` name are without that. The correction
learns from these moments and from a forecast every `--learn-every-s`, which is not judged; roostd
learns from one every ten minutes. A moment counts in the half of the trace in which it lies. A job
that is stopped counts with its next start. With `--waiting` the time for a queue of so many jobs is
measured instead. Times are seconds of a core.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path

import _harness
import numpy as np

from roost_engine.domain.events import Event, Tick
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine
from roost_engine.forecast.arrival_log import ArrivalLog, LoggedArrival
from roost_engine.forecast.calibration import Calibration
from roost_engine.forecast.forecast import (
    Forecast,
    ForecastConfig,
    Quantiles,
    forecast,
    plays,
)
from roost_engine.forecast.snapshot import Snapshot
from roost_engine.forecast.survey import started_s, survey
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.formats import load_trace
from roost_sim.traces.generator import generate
from roostd.app.forecast.forecast_worker import few_collections

POLL_S = 300.0
QUIET_FRAC = 0.1  # at either end of the trace there is no moment
SOON_S = 60.0
HORIZON_S = 14 * 86_400.0  # a bound beyond it counts as this


@dataclass(slots=True)
class Observer:
    """Takes snapshots of an engine at given moments, and makes a forecast of each.

    Attributes:
        moments_s: engine times, ascending.
        reads_limits: whether time limits tell something about run times.
        draws: plays of each forecast; 0: only snapshots are taken.
        learn_every_s: between two forecasts that only the correction sees; inf: there are none.
        snapshots: receives what was found.
        forecasts, corrected: receive what the plays say, and what roostd would say.
        starts_s: receive when the jobs of each snapshot started next.
        survey_s, forecast_s: receive how long each took.
        arrivals: receives the jobs that came, with what was expected of their run times then.
        learning_count: forecasts so far that only the correction has seen.
    """

    moments_s: Sequence[float]
    reads_limits: bool
    draws: int
    learn_every_s: float = inf
    snapshots: list[Snapshot] = field(default_factory=list)
    forecasts: list[Forecast] = field(default_factory=list)
    corrected: list[Forecast] = field(default_factory=list)
    starts_s: list[dict[JobId, float]] = field(default_factory=list)
    survey_s: list[float] = field(default_factory=list)
    forecast_s: list[float] = field(default_factory=list)
    arrivals: dict[JobId, LoggedArrival] = field(default_factory=dict)
    learning_count: int = 0
    _calibration: Calibration = field(default_factory=Calibration)
    _awaited: list[tuple[int, JobId]] = field(default_factory=list)

    def events(self, engine: Engine) -> Iterator[Event]:
        """Yield a Tick at each moment and each poll; see Run.outside."""
        # Time limits are drawn around the true run times where a trace has none.
        log, last_s = ArrivalLog(0.0, reads_limits=self.reads_limits), self.moments_s[-1]
        polls_s = np.arange(POLL_S, last_s, POLL_S).tolist()
        due, learning = set(self.moments_s), set[float]()
        if self.draws and self.learn_every_s < inf:
            learning = set(np.arange(self.learn_every_s, last_s, self.learn_every_s).tolist())
        for at_s in sorted({*polls_s, *due, *learning}):
            yield Tick(at_s=at_s)
            for _ in log.observe(engine, at_s):
                pass
            self._note_starts(engine)
            if at_s in due:
                began_s = time.process_time()
                self.snapshots.append(complete(engine, log, at_s))
                self.survey_s.append(time.process_time() - began_s)
                self.arrivals.update((past.job.job_id, past) for past in log)
                if self.draws:
                    self._forecast(self.snapshots[-1])
            elif at_s in learning:
                self._learn(complete(engine, log, at_s))

    def _learn(self, snapshot: Snapshot) -> None:
        # Seeds that no judged moment has: the plays of those stay as they are without learning.
        self.learning_count += 1
        seed = len(self.moments_s) + self.learning_count
        self._calibration.note(forecast_of(snapshot, ForecastConfig(), self.draws, seed))

    def _forecast(self, snapshot: Snapshot) -> None:
        number, began_s = len(self.forecasts), time.process_time()
        found = forecast_of(snapshot, ForecastConfig(), self.draws, number)
        self.corrected.append(self._calibration.correct(found))
        self._calibration.note(found)
        self.forecast_s.append(time.process_time() - began_s)
        self.forecasts.append(found)
        self.starts_s.append({})
        self._awaited += [(number, job.job_id) for job in snapshot.waiting]

    def _note_starts(self, engine: Engine) -> None:
        """Note which jobs have started; none starts and is stopped again between two polls."""
        self._calibration.settle(partial(started_s, engine))
        awaited, self._awaited = self._awaited, []
        for number, job_id in awaited:
            found_s = started_s(engine, job_id)
            if found_s is None:
                continue
            if found_s < inf:
                self.starts_s[number][job_id] = found_s
            else:
                self._awaited.append((number, job_id))


def complete(engine: Engine, log: ArrivalLog, at_s: float) -> Snapshot:
    """Return a snapshot, without turns for others."""
    steps = survey(engine, log, at_s)
    while True:
        try:
            next(steps)
        except StopIteration as found:
            snapshot = found.value
            assert isinstance(snapshot, Snapshot)
            return snapshot


def forecast_of(snapshot: Snapshot, config: ForecastConfig, draws: int, seed: int) -> Forecast:
    """Return a forecast from so many plays."""
    generator = np.random.default_rng(seed)
    return forecast(snapshot, list(islice(plays(snapshot, config, generator), draws)))


@dataclass(slots=True)
class Tally:
    """What became of forecasts."""

    inside: list[bool] = field(default_factory=list)
    early: list[bool] = field(default_factory=list)
    error_s: list[float] = field(default_factory=list)
    log_error: list[float] = field(default_factory=list)
    width_s: list[float] = field(default_factory=list)
    width_factor: list[float] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    ends_inside: list[bool] = field(default_factory=list)
    moment_fracs: list[float] = field(default_factory=list)

    def add(
        self, snapshot: Snapshot, found: Forecast, times: dict[JobId, tuple[float, float]]
    ) -> None:
        """Compare a forecast with the starts and ends that came."""
        inside = list[bool]()
        for job in snapshot.waiting:
            expected = found.jobs[job.job_id]
            assert expected.start is not None
            if job.job_id not in times:
                continue
            start_s, end_s = (time_s - snapshot.at_s for time_s in times[job.job_id])
            low_s, middle_s, high_s = (
                expected.start.low_s,
                expected.start.median_s,
                expected.start.high_s,
            )
            inside.append(low_s - 1.0 <= start_s <= high_s + 1.0)
            self.early.append(start_s < low_s - 1.0)
            self.error_s.append(abs(start_s - middle_s))
            # A median beyond the horizon is wrong by an infinite factor.
            ratio = (start_s + SOON_S) / (middle_s + SOON_S)
            self.log_error.append(abs(np.log(ratio)) if ratio else np.inf)
            self.loss.append(pinball_loss(start_s, expected.start))
            self.width_s.append(high_s - low_s)
            self.width_factor.append((high_s + SOON_S) / (low_s + SOON_S))
            self.ends_inside.append(expected.end.low_s <= end_s <= expected.end.high_s)
        self.inside += inside
        if inside:
            self.moment_fracs.append(float(np.mean(inside)))

    def figures(self) -> dict[str, float]:
        """Return the figures by name."""
        return {
            "starts": len(self.inside),
            "starts_inside_frac": round(float(np.mean(self.inside)), 3),
            "starts_before_frac": round(float(np.mean(self.early)), 3),
            "moments_inside_frac": round(float(np.mean(self.moment_fracs)), 3),
            "ends_inside_frac": round(float(np.mean(self.ends_inside)), 3),
            "median_error_min": round(float(np.median(self.error_s)) / 60, 1),
            "median_error_factor": round(float(np.exp(np.median(self.log_error))), 2),
            "pinball_loss": round(float(np.mean(self.loss)), 3),
            "median_width_min": round(float(np.median(self.width_s)) / 60, 1),
            "median_width_factor": round(float(np.median(self.width_factor)), 1),
        }


def pinball_loss(start_s: float, said: Quantiles) -> float:
    """Return the loss of the three quantiles, of logarithms: the lower, the nearer and narrower."""
    real, loss = np.log(start_s + SOON_S), 0.0
    for frac, time_s in ((0.1, said.low_s), (0.5, said.median_s), (0.9, said.high_s)):
        over = real - np.log(min(time_s, HORIZON_S) + SOON_S)
        loss += max(frac * over, (frac - 1.0) * over)
    return loss


def calibrate(options: argparse.Namespace) -> dict[str, object]:
    """Return the figures of both halves."""
    observer, ends_s, half_s = observed(options)
    took_s = observer.forecast_s
    figures = dict[str, object]()
    for prefix, forecasts in (("", observer.corrected), ("raw_", observer.forecasts)):
        tallies = {"first_": Tally(), "second_": Tally(), "": Tally()}
        for snapshot, found, starts_s in zip(
            observer.snapshots, forecasts, observer.starts_s, strict=True
        ):
            times = {
                job_id: (start_s, ends_s[job_id])
                for job_id, start_s in starts_s.items()
                if job_id in ends_s
            }
            for half in ("first_" if snapshot.at_s < half_s else "second_", ""):
                tallies[half].add(snapshot, found, times)
        for half, tally in tallies.items():
            if tally.inside:
                found_here = tally.figures().items()
                figures |= {f"{prefix}{half}{key}": value for key, value in found_here}
    waiting = [len(snapshot.waiting) for snapshot in observer.snapshots]
    figures |= run_time_figures(observer.arrivals.values())
    return figures | {
        "learning_forecasts": observer.learning_count,
        "waiting_median": float(np.median(waiting)),
        "waiting_most": max(waiting),
        "forecast_median_s": round(float(np.median(took_s)), 3),
        "forecast_most_s": round(max(took_s), 3),
        "survey_median_ms": round(1e3 * float(np.median(observer.survey_s)), 2),
        "survey_most_ms": round(1e3 * max(observer.survey_s), 2),
    }


def run_time_figures(arrivals: Iterable[LoggedArrival]) -> dict[str, float]:
    """Return what fractions of the runs were shorter and longer than expected at submission.

    Expected is an 80 % interval, so a tenth each where it is right. Jobs that still ran are left
    out; no figures where no job has ended.
    """
    ended = [(past.run_s, past.times) for past in arrivals if past.run_s is not None]
    if not ended:
        return {}
    below = [run_s < times.quantile_s(0.1) for run_s, times in ended]
    above = [run_s > times.quantile_s(0.9) for run_s, times in ended]
    return {
        "runs": len(ended),
        "runs_below_frac": round(float(np.mean(below)), 3),
        "runs_above_frac": round(float(np.mean(above)), 3),
    }


def observed(options: argparse.Namespace) -> tuple[Observer, dict[JobId, float], float]:
    """Simulate; returns what was seen, the end of each job, and the middle of the trace."""
    cluster = load_cluster(options.cluster)
    if options.trace is None:
        trace = generate(HELIOS, options.jobs, options.seed)
    else:
        trace = load_trace(options.trace).trace
        trace = trace.without_impossible_nodes([node.kind.gpu_count for node in cluster.nodes])
    trace = trace.at_load(options.load, cluster.gpu_count)
    span_s = trace.span_s
    generator = np.random.default_rng(options.seed)
    moments = generator.uniform(QUIET_FRAC, 1.0 - QUIET_FRAC, options.moments) * span_s
    has_limits = not bool(np.isnan(trace.time_limit_s).any())
    draws = options.draws if options.waiting is None else 0
    observer = Observer(sorted(moments.tolist()), has_limits, draws, options.learn_every_s)
    policy = find_policy(options.policy)
    run = Run(
        trace=trace, cluster=cluster, policy=policy, seed=options.seed, outside=observer.events
    )
    report = simulate(run)
    ends_s = {job.job_id: job.ended_s for job in report.outcome.jobs if job.ended_s is not None}
    return observer, ends_s, span_s / 2


def timed(options: argparse.Namespace) -> dict[str, object]:
    """Return how long the plays take with many waiting jobs."""
    observer, _, _ = observed(options)
    if not any(snapshot.waiting for snapshot in observer.snapshots):
        raise SystemExit("no job waits at any of the moments: give a higher --load")
    fullest = max(observer.snapshots, key=lambda snapshot: len(snapshot.waiting))
    snapshot = with_waiting(fullest, options.waiting)
    seconds = [
        _seconds(lambda: forecast_of(snapshot, ForecastConfig(), options.draws, 0))
        for _ in range(3)
    ]
    return {
        "waiting": len(snapshot.waiting),
        "running": len(snapshot.running),
        "draws": options.draws,
        "forecast_s": round(min(seconds), 3),
        "play_ms": round(1e3 * min(seconds) / options.draws, 2),
    }


def with_waiting(snapshot: Snapshot, count: int) -> Snapshot:
    """Return a snapshot in which its waiting jobs wait several times over."""
    rows = np.resize(np.arange(len(snapshot.waiting)), count)
    table = snapshot.waiting_times
    return replace(
        snapshot,
        waiting=tuple(
            replace(snapshot.waiting[row], job_id=JobId(f"{number}"))
            for number, row in enumerate(rows.tolist())
        ),
        waiting_times=replace(
            table,
            ended_fracs=table.ended_fracs[rows],
            age_s=table.age_s[rows],
            limit_s=table.limit_s[rows],
        ),
    )


def _seconds(action: object) -> float:
    assert callable(action)
    began_s = time.process_time()
    action()
    return time.process_time() - began_s


def main(arguments: Iterable[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trace", type=Path, help="instead of generated jobs")
    parser.add_argument("--jobs", type=_harness.whole, default=4_000, help="how many are generated")
    parser.add_argument("--cluster", default="venus/3")
    parser.add_argument("--load", type=_harness.number, default=0.9)
    parser.add_argument("--policy", default="learned+strict+patient-delay")
    parser.add_argument("--moments", type=_harness.whole, default=100)
    parser.add_argument("--draws", type=_harness.whole, default=20)
    parser.add_argument("--learn-every-s", type=_harness.number, default=inf)
    parser.add_argument(
        "--waiting", type=_harness.whole, help="measure the time with so many waiting jobs"
    )
    parser.add_argument("--seed", type=_harness.whole_or_0, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output")
    options = parser.parse_args(None if arguments is None else list(arguments))
    few_collections()
    figures = calibrate(options) if options.waiting is None else timed(options)
    given = {"policy": options.policy, "load": options.load, "cluster": options.cluster}
    _harness.report({**given, **figures}, as_json=options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
