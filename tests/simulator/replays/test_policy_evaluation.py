"""policy_evaluation: two policies on one journal, known answers, intervals that hold."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.simulator.journals import WrittenJournal
from tests.simulator.simulated import arrival, cluster

from roost_engine.domain.events import NodeSeen
from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Plugins
from roost_engine.plugins.stacks import OrderKind
from roost_engine.prediction.speed.tier_speeds import UNKNOWN_SPEEDS
from roost_engine.testing.builders import node, shape
from roost_formats.journal.evaluation import Contender, EvaluationTask
from roost_sim.replays.policy_evaluation import (
    WINDOW_COUNT,
    evaluate,
    lost_frac,
    ratio_of,
    recent_runs,
    windows_of,
)
from roost_sim.replays.recording import Recording, RecordingError
from roost_sim.replays.what_if import CompletedJob

SHORT, LONG = 20.0, 200.0


def contender(order: OrderKind = OrderKind.PRIORITY, score: str = "heuristic") -> Contender:
    return Contender(plugins=Plugins(order=order), score=score)


def task(path: Path, candidate: Contender, last_s: float = 1e9) -> EvaluationTask:
    return EvaluationTask(
        journal=str(path),
        active=contender(),
        candidate=candidate,
        config=EngineConfig(),
        last_s=last_s,
    )


@pytest.fixture
def taught(tmp_path: Path) -> Path:
    """Rounds in which a short job of one user waits behind the long ones of another."""
    with WrittenJournal(tmp_path, plugins=Plugins(order=OrderKind.LEARNED)) as journal:
        jobs = []
        for number in range(40):
            user, work_s = (1001, SHORT) if number % 4 == 3 else (1002, LONG)
            at_s = number // 4 * 700.0 + number % 4
            one = arrival(str(number), at_s, work_s, 8)
            jobs.append(replace(one, spec=replace(one.spec, user_id=user)))
        journal.simulate(cluster(1), *jobs)
        return journal.path


def test_a_policy_is_as_good_as_itself(three_jobs: Path) -> None:
    found = evaluate(task(three_jobs, contender()))
    assert (found.job_count, found.left_out_count) == (3, 0)
    assert found.active == found.candidate
    assert (found.avg_ratio.value, found.avg_ratio.low, found.avg_ratio.high) == (1.0, 1.0, 1.0)
    assert found.p99_ratio == found.avg_ratio
    # By hand: starts at 0, 100 and 180 after arrivals at 0, 10 and 20.
    assert found.active.avg_jct_s == pytest.approx((100 + 170 + 200) / 3)
    assert found.recorded_avg_jct_s == found.active.avg_jct_s
    assert found.active.lost_frac == pytest.approx((0 + 90 / 170 + 160 / 200) / 3)


def test_an_order_that_knows_the_short_jobs_is_better_beyond_doubt(
    taught: Path,
) -> None:
    found = evaluate(task(taught, contender(OrderKind.LEARNED)))
    assert found.job_count == 40
    assert found.candidate.avg_jct_s < found.active.avg_jct_s
    assert found.avg_ratio.low < found.avg_ratio.value < found.avg_ratio.high < 1.0
    assert found.candidate.lost_frac < found.active.lost_frac


def test_only_jobs_of_the_window_count(taught: Path) -> None:
    found = evaluate(task(taught, contender(), last_s=1500.0))
    assert 4 <= found.job_count < 16
    assert found.window_s == 1500.0


def test_a_window_with_too_few_jobs_is_refused(taught: Path) -> None:
    with pytest.raises(RecordingError, match="take a longer window"):
        evaluate(task(taught, contender(), last_s=1.0))


def test_a_model_that_is_not_there_is_named(three_jobs: Path) -> None:
    with pytest.raises(RecordingError, match="that model is not at hand"):
        evaluate(task(three_jobs, contender(score="onnx:0123456789ab")))


@pytest.mark.parametrize(("last_s", "first"), [(50.0, 2), (100.0, 2), (150.0, 1), (1e9, 0)])
def test_the_window_begins_with_the_last_run_before_it(
    tmp_path: Path, last_s: float, first: int
) -> None:
    with WrittenJournal(tmp_path) as journal:
        for began_s in (100.0, 200.0, 300.0):
            journal.feed(NodeSeen(at_s=began_s - 1.0, node=node("n0")))
            journal.begin_run(began_s)
        journal.feed(NodeSeen(at_s=300.0, node=node("n0")))
    with Recording(journal.path) as recording:
        assert recent_runs(recording.runs, last_s)[0].head.began_s == first * 100.0
    with pytest.raises(RecordingError, match="no run"):
        recent_runs([], last_s)


def test_windows_hold_every_job_once() -> None:
    arrived_s = [0.0, 1.0, 50.0, 99.0, 100.0]
    windows = windows_of(arrived_s, 0.0, 100.0)
    assert sorted(np.concatenate(windows).tolist()) == [0, 1, 2, 3, 4]
    assert len(windows) <= WINDOW_COUNT
    assert windows[-1].tolist() == [3, 4]


def test_an_interval_holds_the_true_ratio_about_as_often_as_it_says() -> None:
    random, hits = np.random.default_rng(1), 0
    for _ in range(100):
        active = random.exponential(100.0, size=280)
        candidate = active * random.normal(0.9, 0.3, size=280).clip(0.0)
        windows = [np.arange(first, first + 10) for first in range(0, 280, 10)]
        draws = [
            np.concatenate([windows[n] for n in random.integers(28, size=28)]) for _ in range(200)
        ]
        found = ratio_of(active, candidate, lambda values: float(values.mean()), draws)
        hits += found.low <= 0.9 <= found.high
    assert 85 <= hits <= 100


@pytest.mark.parametrize(
    ("jct_s", "work_s", "lost"), [(100.0, 100.0, 0.0), (100.0, 25.0, 0.75), (50.0, 60.0, 0.0)]
)
def test_the_lost_share_is_what_was_not_work(jct_s: float, work_s: float, lost: float) -> None:
    job = CompletedJob(wait_s=0.0, jct_s=jct_s, started_s=0.0, shares=())
    assert lost_frac(job, work_s) == lost


def test_a_gang_across_nodes_counts_as_slower_than_its_work(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        gangs = (arrival(str(n), n * 200.0, 100.0, 16, shape(8, 2)) for n in range(2))
        journal.simulate(cluster(2), *gangs)
    found = evaluate(task(journal.path, contender()))
    assert found.active.avg_jct_s == pytest.approx(found.recorded_avg_jct_s)
    assert found.active.lost_frac == pytest.approx(1.0 - UNKNOWN_SPEEDS.rack_frac)
