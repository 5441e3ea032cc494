"""Training of a model of run times on the first half of a trace, and its figures on the second."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roost_formats.models.run_times import INPUT_NAME, OUTPUT_NAME, load_onnx_run_times
from roost_formats.models.signature import RUN_TIMES
from roost_train.errors import TooFewJobs
from roost_train.export.model_files import library_versions, write_model_files
from roost_train.runtimes.run_time_figures import (
    FEW_JOBS_COUNT,
    RunTimeFigures,
    figures,
    quantiles_s,
)
from roost_train.runtimes.run_time_jobs import ReplayedJobs
from roost_train.runtimes.run_time_net import (
    RunTimeHyperParameters,
    RunTimeNet,
    export_run_times,
    target_fracs,
    train_run_times,
)
from roost_train.runtimes.run_time_trees import predict_with_trees

MODEL_FILE = "runtimes.onnx"
LEAST_JOBS = 400
MODEL_FRAC = 0.5  # of the blend, as roost_engine.prediction.run_time.run_time_model has it
HISTORY, MODEL, BLEND = "history", "model", "blend"
_CANARY_COUNT = 16
_WARM_UP_COUNT = 300  # the first jobs of a trace, of which the history knows nothing yet


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeReport:
    """What a training came to.

    Attributes:
        train_count: jobs learned from: of the first half, those that had ended by its end.
        test_count: jobs of the second half.
        epochs: passes over the jobs.
        rows: one for each predictor, on the jobs of the second half.
    """

    train_count: int
    test_count: int
    epochs: int
    rows: tuple[RunTimeFigures, ...]

    @property
    def best(self) -> str:
        """The form to use: the blend if its pinball loss is below the history's."""
        loss = {row.predictor: row.pinball_ln for row in self.rows}
        return BLEND if loss[BLEND] < loss[HISTORY] else HISTORY


def train_and_compare(
    jobs: ReplayedJobs,
    source: str,
    parameters: RunTimeHyperParameters,
    progress: Callable[[int, float], None] = lambda done, loss: None,
) -> tuple[RunTimeNet, RunTimeReport]:
    """Train on the first half of some jobs, and compare all predictors on the second.

    Args:
        jobs: in order of submission.
        source: the file that they come from, for messages.
        parameters: of the training.
        progress: called with the passes over the jobs that are done, of 2 · most_epochs at most,
            and the loss on the jobs that chose the number of passes.

    Raises:
        TooFewJobs: there are fewer than LEAST_JOBS, or too few of them ended in the first half.
    """
    half = len(jobs) // 2
    if len(jobs) < LEAST_JOBS:
        raise TooFewJobs(source, len(jobs), LEAST_JOBS)
    first = np.arange(min(_WARM_UP_COUNT, half // 4), half)
    train = first[jobs.ended_s[first] <= jobs.submit_s[half]]
    if len(train) < LEAST_JOBS // 8:
        raise TooFewJobs(source, len(train), LEAST_JOBS // 8, "of its first half that ended in it")
    test = np.arange(half, len(jobs))
    epochs = choose_epochs(jobs, train, parameters, progress)
    net = train_run_times(jobs.features[train], jobs.run_s[train], parameters, epochs)
    progress(2 * parameters.most_epochs, 0.0)
    rows = tuple(_rows(jobs, net, train, test, parameters.seed))
    counts = {"train_count": len(train), "test_count": len(test), "epochs": epochs}
    return net, RunTimeReport(rows=rows, **counts)


def choose_epochs(
    jobs: ReplayedJobs,
    train: NDArray[np.int64],
    parameters: RunTimeHyperParameters,
    progress: Callable[[int, float], None] = lambda done, loss: None,
) -> int:
    """Return after how many passes over the jobs the blend predicts later jobs best.

    The last fifth of the jobs to learn from is held out for that; none of the jobs that the report
    is about is read. More passes only overfit single users.
    """
    cut = len(train) * 4 // 5
    early, late = train[:cut], train[cut:]
    known, wanted = jobs.history_fracs[late], target_fracs(jobs.run_s[late])
    losses = list[float]()

    def judge(net: RunTimeNet) -> None:
        answered = net.ending_fracs(jobs.features[late])
        mixed = MODEL_FRAC * answered + (1.0 - MODEL_FRAC) * known
        losses.append(float(-(wanted * np.log(mixed + 1e-9)).sum(axis=1).mean()))
        progress(len(losses), losses[-1])

    count = parameters.most_epochs
    train_run_times(jobs.features[early], jobs.run_s[early], parameters, count, judge)
    return int(np.argmin(losses)) + 1


def _rows(
    jobs: ReplayedJobs,
    net: RunTimeNet,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    seed: int,
) -> Iterator[RunTimeFigures]:
    is_new = jobs.user_ended_count < FEW_JOBS_COUNT
    known, run_s = jobs.history_fracs[test], jobs.run_s[test]
    answered = net.ending_fracs(jobs.features[test]).astype(np.float64)
    mixed = MODEL_FRAC * answered + (1.0 - MODEL_FRAC) * known
    for name, fracs in ((HISTORY, known), (MODEL, answered), (BLEND, mixed)):
        yield figures(name, quantiles_s(fracs), run_s, is_new[test])
    limited = test[np.isfinite(jobs.limit_s[test])]
    if len(limited):
        limit_s = jobs.limit_s[limited]
        yield figures("user's limit", limit_s, jobs.run_s[limited], is_new[limited])
    yield figures("mean of last two", jobs.last_two_s[test], run_s, is_new[test])
    yield figures("median by user and GPUs", jobs.median_s[test], run_s, is_new[test])
    trees_s = predict_with_trees(jobs, train, test, seed)
    yield figures("gradient-boosted trees", trees_s, run_s, is_new[test])


def as_table(report: RunTimeReport) -> str:
    """Return the figures as a Markdown table."""
    lines = [
        "| predictor | pinball, ln s | pinball, s | rank | in 80 % | new users, ln | jobs |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in report.rows:
        inside = "" if row.inside_frac is None else f"{100 * row.inside_frac:.1f} %"
        new = "" if row.new_user_ln_error is None else f"{row.new_user_ln_error:.2f}"
        lines.append(
            f"| {row.predictor} | {row.pinball_ln:.3f} | {row.pinball_s:,.0f} | {row.rank:.3f}"
            f" | {inside} | {new} | {row.job_count:,} |"
        )
    return "\n".join(lines)


def write_run_times(
    net: RunTimeNet,
    jobs: ReplayedJobs,
    parameters: RunTimeHyperParameters,
    report: RunTimeReport,
    folder: Path,
    command: str,
) -> Path:
    """Write runtimes.onnx and its manifest, load them as the daemon would, return the path.

    Args:
        net: the trained net.
        jobs: of which some are the manifest's canary.
        parameters: of its training.
        report: its figures.
        folder: made if it is missing.
        command: that repeats the training.

    Raises:
        PolicyError: the daemon would refuse the model.
        OSError: the folder cannot be written.
    """
    model = export_run_times(net)
    places = np.linspace(0, len(jobs) - 1, _CANARY_COUNT).astype(np.int64)
    canary = jobs.features[places]
    path = folder / MODEL_FILE
    write_model_files(
        path,
        model,
        RUN_TIMES,
        {INPUT_NAME: RUN_TIMES.inputs[0].columns or ()},
        ({INPUT_NAME: canary}, {OUTPUT_NAME: net.ending_fracs(canary)}),
        _card(parameters, report, command),
    )
    load_onnx_run_times(path, lambda: 0.0)
    return path


def _card(
    parameters: RunTimeHyperParameters, report: RunTimeReport, command: str
) -> Mapping[str, object]:
    return {
        "name": parameters.run_name,
        "training_command": command,
        "hyper_parameters": asdict(parameters),
        "train_count": report.train_count,
        "epochs": report.epochs,
        "held_out": [asdict(row) for row in report.rows],
        "best": report.best,
        "versions": library_versions(),
    }
