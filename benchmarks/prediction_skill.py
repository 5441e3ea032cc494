"""Measure the skill of predicted run times as a site could: over each 500 jobs that ended.

    python benchmarks/prediction_skill.py jobs.csv.gz --jobs 5398 --sigma 2

Skill is Spearman's rank correlation of medians and run times, and the share of the pinball loss
that is saved by more than a job's number of GPUs. Each job is predicted at its submission, from
what had ended by then in the trace. Used by docs/results/order.md, on a stack that is not built:
one that stops jobs and trusts predictions as far as their skill goes. The learned order goes by
another skill, that of `roost_engine.prediction.run_time.prediction_skill`.
"""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from roost_engine.domain.model import JobId, JobSpec
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_sim.information.altered_history import AlteredHistory
from roost_sim.information.trace_history import PastJobs, learned_from
from roost_sim.traces.formats import load_trace
from roost_sim.traces.trace import Trace
from roost_sim.worlds.prediction_spec import OtherSite, PredictionSpec
from roost_train.runtimes.run_time_figures import QUANTILES, pinball, rank_correlation

_MEDIAN = QUANTILES.index(0.5)


@dataclass(frozen=True, slots=True)
class EndedJobs:
    """Jobs in the order in which they ended.

    Attributes:
        run_s: float64 [job].
        predicted_s: float64 [quantile, job], at submission.
        by_gpus_s: the same, if no more than the number of GPUs is known of the job.
    """

    run_s: NDArray[np.float64]
    predicted_s: NDArray[np.float64]
    by_gpus_s: NDArray[np.float64]

    def skill(self, part: slice) -> tuple[float, float]:
        """Return the rank correlation, and the share of the pinball loss that is saved."""
        real_ln = np.log(np.maximum(self.run_s[part], 1.0))
        loss = pinball(np.log(self.predicted_s[:, part]), real_ln)
        loss_by_gpus = pinball(np.log(self.by_gpus_s[:, part]), real_ln)
        rank = rank_correlation(self.predicted_s[_MEDIAN, part], self.run_s[part])
        return rank, 1.0 - loss / loss_by_gpus


def ended_jobs(trace: Trace, spec: PredictionSpec) -> EndedJobs:
    """Replay a trace, and return the jobs that ended before the last one was submitted."""
    altered = AlteredHistory(spec, seed=0)
    plain = AlteredHistory(replace(spec, sigma=0.0), seed=0)
    past, plain_past = PastJobs(trace, altered), PastJobs(trace, plain)
    waiting = dict[JobId, tuple[list[float], list[float]]]()
    rows = list[tuple[float, list[float], list[float]]]()
    for number, at_s in enumerate(trace.submit_s.tolist()):
        for ended, run_s, _ in past.advance(at_s):
            rows.append((run_s, *waiting.pop(ended.job_id)))
        list(plain_past.advance(at_s))
        job = past.submit(number)
        plain_past.submit(number)
        by_gpus = plain.times(_nameless(job), 0.0, at_s)
        waiting[job.job_id] = _quantiles_s(altered.times(job, 0.0, at_s)), _quantiles_s(by_gpus)
    runs_s, predicted_s, by_gpus_s = zip(*rows, strict=True)
    return EndedJobs(np.array(runs_s), np.array(predicted_s).T, np.array(by_gpus_s).T)


def _nameless(job: JobSpec) -> JobSpec:
    return replace(job, user_id=-1, name="", account="")


def _quantiles_s(times: RunTimes) -> list[float]:
    return [times.quantile_s(frac) for frac in QUANTILES]


@click.command(help=__doc__)
@click.argument("path", type=click.Path(path_type=Path, exists=True))
@click.option("--jobs", "job_count", type=int, help="Take the first so many jobs with GPUs.")
@click.option("--sigma", default=0.0, help="As --prediction-noise of roost-sim compare.")
@click.option("--stale", "stale_s", default=0.0, help="As --prediction-stale.")
@click.option("--other", type=click.Path(path_type=Path, exists=True), help="As --prediction-from.")
@click.option("--last", "last_count", default=500, help="Jobs that skill is measured over.")
def main(
    path: Path,
    job_count: int | None,
    sigma: float,
    stale_s: float,
    other: Path | None,
    last_count: int,
) -> None:
    """Print mean, least and most of both measures as JSON."""
    site = None
    if other is not None:
        site = OtherSite(trace=other.name, history=learned_from(_gpu_jobs(other, None)))
    spec = PredictionSpec(sigma=sigma, stale_s=stale_s, other_site=site)
    ended = ended_jobs(_gpu_jobs(path, job_count), spec)
    starts = range(0, len(ended.run_s) - last_count + 1, last_count)
    found = np.array([ended.skill(slice(start, start + last_count)) for start in starts])
    rank, gain = ([round(float(f(one)), 2) for f in (np.mean, np.min, np.max)] for one in found.T)
    print(json.dumps({"ended": len(ended.run_s), "rank": rank, "loss_saved_frac": gain}))


def _gpu_jobs(path: Path, count: int | None) -> Trace:
    trace = load_trace(path).trace
    with_gpus = trace.where(trace.gpu_count > 0)
    return with_gpus if count is None else with_gpus.limit(count)


if __name__ == "__main__":
    main()
