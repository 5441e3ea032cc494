"""roostd.telemetry.activity_speed: worked by hand; weak, and never more than a nudge."""

from math import log

import pytest
from tests.daemon.telemetry.test_progress import running

from roost_engine.domain.job_kind import kind_of
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine
from roostd.telemetry.activity_speed import (
    LEAST_SAMPLES,
    MOST_NUDGE,
    WARM_UP_S,
    WINDOW_S,
    Activity,
    ActivityTracker,
    ActivityWindow,
    slowdown_between,
)
from roostd.telemetry.speed_source import Expected

FOE = frozenset({JobId("9")})
EXPECTED = Expected(0.05, 0.3, (("7 foe", "switch"),), "node")
SAMPLE_S = 60.0


def wave(sm_frac: float, memory_frac: float | None = None) -> list[Activity]:
    """Two samples around these means."""
    return [
        Activity(sm_frac + by, None if memory_frac is None else memory_frac + by)
        for by in (-0.01, 0.01)
    ]


class Runner:
    """Job 1 of two GPUs, which started at 1 s; its samples come once a minute."""

    def __init__(self, tracker: ActivityTracker | None = None) -> None:
        self.engine: Engine = running("1", "2")
        self.record = self.engine.record(JobId("1"))
        self.tracker = tracker or ActivityTracker()
        self.at_s = 1.0 + WARM_UP_S
        self.expected = EXPECTED

    def window(self, *samples: Activity, neighbours: frozenset[JobId] = frozenset()) -> None:
        """Let a window pass in which these samples take turns."""
        for at in range(int(WINDOW_S / SAMPLE_S) + 1):
            self.at_s += SAMPLE_S
            sample = samples[at % len(samples)]
            self.tracker.add(
                self.record, "H100", neighbours, sample, self.at_s, lambda: self.expected
            )

    @property
    def estimate(self) -> float | None:
        return self.tracker.estimate(self.record)


@pytest.mark.parametrize(
    ("now", "before", "gpu_count", "expected"),
    [
        (Activity(0.48, None), Activity(0.60, None), 1, log(1.25)),  # 0.6 / 0.48
        (Activity(0.60, None), Activity(0.48, None), 1, -log(1.25)),  # faster is told too
        (Activity(0.90, 0.20), Activity(0.90, 0.30), 1, log(1.5)),  # by memory: 0.3 / 0.2
        (Activity(0.90, 0.20), Activity(0.90, 0.30), 8, log(1.5)),
        (Activity(0.48, None), Activity(0.60, None), 2, None),  # NCCL's waiting is SM activity
        (Activity(0.50, None), Activity(0.99, None), 1, None),  # saturated
        (Activity(0.50, 0.01), Activity(0.99, 0.02), 1, None),  # saturated, and rounding
        (Activity(0.00, 0.00), Activity(0.50, 0.50), 1, None),
        (Activity(0.48, None), Activity(0.60, 0.30), 1, log(1.25)),  # memory is no more reported
    ],
)
def test_log_slowdown_between_two_windows(
    now: Activity, before: Activity, gpu_count: int, expected: float | None
) -> None:
    assert slowdown_between(now, before, gpu_count) == (
        None if expected is None else pytest.approx(expected)
    )


def test_a_window_is_the_mean_of_its_busy_samples() -> None:
    window = ActivityWindow(0.0)
    for sample in [Activity(0.4, 0.2), Activity(0.8, 0.4), Activity(0.0, 0.0)] * 4:
        window.add(sample)
    mean = window.mean()
    assert mean is not None
    assert mean.sm_frac == pytest.approx(0.6)
    assert mean.memory_frac == pytest.approx(0.3)


@pytest.mark.parametrize(
    "samples",
    [
        [*wave(0.5)] * (LEAST_SAMPLES // 2 - 1),  # too few
        [Activity(0.5, 0.2)] * 30,  # stuck
        [Activity(0.5, 0.2), Activity(0.0, 0.0), Activity(0.0, 0.0)] * 10,  # mostly idle
        [Activity(0.0, 0.0)] * 30,  # a probe that says idle
    ],
)
def test_a_window_says_nothing_where_it_cannot_be_believed(samples: list[Activity]) -> None:
    window = ActivityWindow(0.0)
    for sample in samples:
        window.add(sample)
    assert window.mean() is None


def test_memory_is_unknown_where_one_busy_sample_lacks_it() -> None:
    window = ActivityWindow(0.0)
    for sample in [Activity(0.4, 0.2), Activity(0.8, None)] * 6:
        window.add(sample)
    mean = window.mean()
    assert mean is not None
    assert mean.sm_frac == pytest.approx(0.6)
    assert mean.memory_frac is None


def test_a_run_is_compared_with_its_own_window_alone() -> None:
    job = Runner()
    job.window(*wave(0.9, 0.40))
    assert job.estimate is None
    job.window(*wave(0.9, 0.32), neighbours=FOE)
    assert job.estimate == pytest.approx(log(1.25), abs=1e-2)
    rows = {key.level or "all": row for key, row in job.tracker.table.state().rows}
    assert rows.keys() == {"all", "switch"}
    assert rows["all"].count == pytest.approx(0.1)  # a tenth of a report
    # 0.22 less 0.05 predicted, a tenth of it, beside two imagined reports: 0.017 / 2.1
    assert rows["all"].mean == pytest.approx(0.0082, abs=1e-3)
    assert job.tracker.report_count == 1


def test_a_run_is_compared_with_another_run_of_its_kind_alone() -> None:
    first = Runner()
    first.window(*wave(0.9, 0.40))
    second = Runner(first.tracker)
    second.record.started_s = second.at_s - WARM_UP_S
    second.at_s += SAMPLE_S
    second.window(*wave(0.9, 0.20), neighbours=FOE)
    assert second.estimate == pytest.approx(log(2.0), abs=2e-2)


def test_beside_costlier_neighbours_the_cheaper_ones_count_as_predicted() -> None:
    job = Runner()
    job.window(*wave(0.9, 0.40), neighbours=FOE)  # predicted: 0.05
    job.expected = Expected(0.2, 0.3, (("7 foe", "switch"),))
    job.window(*wave(0.9, 0.32), neighbours=FOE | {JobId("8")})
    assert job.estimate == pytest.approx(0.05 + log(1.25), abs=1e-2)


def test_nothing_is_estimated_without_a_comparison() -> None:
    job = Runner()
    job.window(*wave(0.9, 0.40), neighbours=FOE)
    job.window(*wave(0.9, 0.30), neighbours=FOE)  # the same neighbours: another phase
    assert job.estimate is None
    assert not job.tracker.table.kinds()


def test_phases_of_loading_and_checkpoints_do_not_count_as_slow() -> None:
    job = Runner()
    job.window(*wave(0.9, 0.40))
    job.window(*wave(0.9, 0.40), Activity(0.0, 0.0), neighbours=FOE)
    assert job.estimate == pytest.approx(0.0, abs=5e-3)


def test_a_probe_that_says_idle_teaches_nothing() -> None:
    job = Runner()
    job.window(*wave(0.9, 0.40))
    job.window(Activity(0.0, 0.0), neighbours=FOE)
    assert job.estimate is None
    assert not job.tracker.table.kinds()


def test_a_window_begins_again_when_neighbours_change() -> None:
    job = Runner()
    job.window(*wave(0.9, 0.40))
    job.window(*wave(0.9, 0.20), neighbours=FOE)
    assert job.estimate is not None
    job.tracker.add(
        job.record, "H100", frozenset(), wave(0.9, 0.4)[0], job.at_s + 1.0, lambda: EXPECTED
    )
    assert job.estimate is None


def test_the_warm_up_of_a_run_is_left_out() -> None:
    job = Runner()
    job.at_s = 1.0 - SAMPLE_S
    for _ in range(int(WARM_UP_S / SAMPLE_S)):
        job.at_s += SAMPLE_S
        job.tracker.add(
            job.record, "H100", frozenset(), Activity(0.1, 0.1), job.at_s, lambda: EXPECTED
        )
    job.window(*wave(0.9, 0.40))
    (sm_frac, memory_frac) = job.tracker.learned().best.values()
    assert sm_frac == pytest.approx(0.9, abs=1e-2)
    assert memory_frac == pytest.approx(0.4, abs=1e-2)


def test_for_all_time_a_pair_is_nudged_by_five_percent_and_never_bad() -> None:
    job = Runner()
    job.window(*wave(0.9, 0.80))
    for _ in range(1_500):  # a month, half of it beside a neighbour that leaves a tenth
        job.window(*wave(0.9, 0.80))
        job.window(*wave(0.9, 0.08), neighbours=FOE)
    (pair,) = job.tracker.pairs()
    assert (pair.kind, pair.beside) == (kind_of(job.record.spec), "7 foe")
    assert pair.mean == MOST_NUDGE
    assert not pair.is_bad
    kind = job.tracker.table.kinds()[pair.kind]
    assert kind.count <= 50.0 + 0.1
    assert 0 < kind.mean <= EXPECTED.spread  # each estimate is capped at one spread


def test_what_was_learned_survives_and_another_model_begins_empty() -> None:
    job = Runner()
    job.tracker.use_model("onnx:1")
    job.window(*wave(0.9, 0.40))
    job.window(*wave(0.9, 0.20), neighbours=FOE)
    again = ActivityTracker()
    again.restore(job.tracker.learned())
    assert again.learned() == job.tracker.learned()
    later = Runner(again)
    later.window(*wave(0.9, 0.20), neighbours=FOE)  # alone is known from before
    assert later.estimate == pytest.approx(log(2.0), abs=2e-2)
    again.use_model("onnx:1")
    assert again.table.kinds()
    again.use_model("onnx:2")
    assert not again.table.kinds()


def test_runs_that_are_over_are_forgotten() -> None:
    job = Runner()
    job.window(*wave(0.9, 0.40))
    job.window(*wave(0.9, 0.20), neighbours=FOE)
    job.tracker.keep(frozenset({JobId("1")}))
    assert job.estimate is not None
    job.tracker.keep(frozenset())
    assert job.estimate is None
