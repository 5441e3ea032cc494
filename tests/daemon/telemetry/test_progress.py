"""roostd.telemetry.progress: rates become speeds; lies stay with the liar."""

import pytest

from roost_engine.domain.events import JobQueued, JobStarted, NodeSeen
from roost_engine.domain.job_kind import kind_of
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.scoring.neighbour_corrections import Corrections
from roost_engine.testing.builders import job, node, share
from roostd.telemetry.learned_pairs import pairs_of
from roostd.telemetry.progress import LEAST_SPEED_FRAC, ProgressTracker, Verdict
from roostd.telemetry.speed_source import Expected

UID = job("1").user_id
EXPECTED = Expected(0.1, 0.3, (("7 foe", "nic"),), "node")


def running(*job_ids: str) -> Engine:
    """Return an engine with these jobs, of two GPUs each, on one node."""
    engine = Engine(EngineConfig(), Policies())
    engine.step(NodeSeen(at_s=0.0, node=node("n1", 8, cpu_count=64)))
    for at, job_id in enumerate(job_ids):
        engine.step(JobQueued(at_s=0.0, job=job(job_id, gpus=2)))
        shares = (share("n1", 2 * at, 2 * at + 1),)
        engine.step(JobStarted(at_s=1.0, job_id=JobId(job_id), shares=shares))
    return engine


def report(
    tracker: ProgressTracker, engine: Engine, steps: int, at_s: float, uid: int = UID
) -> Verdict:
    record = engine.record(JobId("1"))
    return tracker.report(record, uid, steps, at_s, lambda: EXPECTED)


def test_a_rate_below_the_best_of_the_kind_is_a_lower_speed() -> None:
    tracker, engine = ProgressTracker(), running("1", "2")
    assert report(tracker, engine, 0, 10.0) == Verdict()
    assert report(tracker, engine, 5, 15.0) == Verdict()  # the window is not over
    first = report(tracker, engine, 300, 40.0).speed
    assert first is not None
    assert (first.job_id, first.speed_frac) == ("1", 1.0)
    slow = report(tracker, engine, 300 + 600, 160.0).speed
    assert slow is not None
    assert slow.speed_frac == pytest.approx(0.5)
    assert list(tracker.table.kinds())
    engine.step(slow)
    assert engine.record(JobId("1")).speed_frac == pytest.approx(0.5)


def test_small_and_frequent_changes_are_not_told_again() -> None:
    tracker, engine = ProgressTracker(), running("1")
    report(tracker, engine, 0, 0.0)
    assert report(tracker, engine, 1000, 100.0).speed is not None
    assert report(tracker, engine, 1100, 130.0).speed is None  # soon after the last
    assert report(tracker, engine, 1800, 203.0).speed is None  # about as fast as told


@pytest.mark.parametrize(
    ("steps", "at_s", "uid", "why"),
    [
        (10, 60.0, UID + 1, "not the owner"),
        (5, 60.0, UID, "fewer steps than before"),
        (10**15, 60.0, UID, "not believed"),
    ],
)
def test_lies_that_show_are_refused(steps: int, at_s: float, uid: int, why: str) -> None:
    tracker, engine = ProgressTracker(), running("1", "2")
    report(tracker, engine, 10, 2.0)
    verdict = report(tracker, engine, steps, at_s, uid)
    assert why in verdict.reason
    assert verdict.speed is None
    assert not tracker.table.kinds()


def test_a_job_that_stands_still_is_never_below_the_bound() -> None:
    tracker, engine = ProgressTracker(), running("1")
    for at, steps in enumerate((0, 10_000, 10_000, 10_000)):
        verdict = report(tracker, engine, steps, 100.0 * at)
    assert verdict == Verdict()  # told once, at 200 s
    assert engine.record(JobId("1")).speed_frac is None
    again = ProgressTracker()
    for at, steps in enumerate((0, 10_000, 10_000)):
        verdict = report(again, engine, steps, 100.0 * at)
    assert verdict.speed is not None
    assert verdict.speed.speed_frac == LEAST_SPEED_FRAC


def test_a_liar_changes_no_estimate_of_another_user() -> None:
    tracker, engine = ProgressTracker(), running("1", "2")
    for at in range(30):
        report(tracker, engine, (at % 3) * 10**5 + at, 60.0 * at)
    mine = engine.record(JobId("1")).spec
    rows = tracker.table.state().rows
    assert {key.kind for key, _ in rows} <= {f"{mine.user_id} {mine.name}"}


def test_a_job_that_waits_is_refused() -> None:
    tracker, engine = ProgressTracker(), Engine(EngineConfig(), Policies())
    engine.step(JobQueued(at_s=0.0, job=job("1", gpus=2)))
    assert "does not run" in report(tracker, engine, 1, 5.0).reason


def test_residuals_are_against_what_was_predicted() -> None:
    tracker, engine = ProgressTracker(), running("1", "2")
    for at_s, steps in ((0.0, 0), (100.0, 1000), (200.0, 1500)):
        report(tracker, engine, steps, at_s)
    rows = {key.level or "all": row for key, row in tracker.table.state().rows}
    assert rows.keys() == {"all", "nic", "node"}
    assert rows["all"].predicted == 0.1
    assert rows["all"].observed == pytest.approx(0.693, abs=1e-3)
    assert rows["all"].total == pytest.approx(0.693 - 0.1 - 0.1, abs=1e-3)


def test_without_a_prediction_the_speed_is_reported_and_nothing_learned() -> None:
    tracker, engine = ProgressTracker(), running("1")
    record = engine.record(JobId("1"))
    tracker.report(record, UID, 0, 0.0, lambda: None)
    assert tracker.report(record, UID, 500, 100.0, lambda: None).speed is not None
    assert not tracker.table.kinds()


def test_rows_against_another_model_are_dropped() -> None:
    tracker, engine = ProgressTracker(), running("1")
    assert tracker.use_model("onnx:1") == 0
    for at_s, steps in ((0.0, 0), (100.0, 1000)):
        report(tracker, engine, steps, at_s)
    assert tracker.use_model("onnx:1") == 0
    assert tracker.use_model("onnx:2") == 3
    assert not tracker.table.kinds()


def test_a_count_that_jumps_makes_only_its_own_kind_look_slow() -> None:
    tracker, engine = ProgressTracker(), running("1", "2")
    for at, steps in enumerate((0, 10, 10 + 99_000 * 60, 99_000 * 60 + 20)):
        verdict = report(tracker, engine, steps, 60.0 * at)
    assert verdict.speed is not None
    assert verdict.speed.speed_frac == LEAST_SPEED_FRAC  # bounded, whatever the best is
    other = engine.record(JobId("2"))
    own_kind = {key.kind for key, _ in tracker.table.state().rows}
    assert all(kind.startswith(f"{UID} ") for kind in own_kind)
    assert other.speed_frac is None


@pytest.mark.parametrize("steps", [2**63 - 1, 2**64, 10**30])
def test_a_count_that_is_huge_is_refused_and_the_next_one_begins_again(steps: int) -> None:
    tracker, engine = ProgressTracker(), running("1")
    report(tracker, engine, 0, 0.0)
    assert "not believed" in report(tracker, engine, steps, 60.0).reason
    assert "fewer steps than before" in report(tracker, engine, 100, 90.0).reason
    found = report(tracker, engine, 400, 150.0).speed
    assert found is not None
    assert found.speed_frac == 1.0


def test_a_user_who_fakes_progress_moves_only_own_jobs() -> None:
    tracker, engine = ProgressTracker(), running("1", "2")
    for at in range(40):  # fast alone at first, then hardly at all
        report(tracker, engine, 60_000 if at == 1 else 60_000 + at, 60.0 * at)
    pairs = pairs_of(tracker.table.state())
    assert pairs  # the liar's own kind is corrected
    found = Corrections(pairs)
    mine = kind_of(engine.record(JobId("1")).spec)
    assert all(pair.kind == mine for pair in pairs)
    for kind in ("7 foe", "999 bert"):
        assert not found.knows(kind)
        assert found.of(kind, [(mine, "nic")]) == 0.0
        assert not found.is_bad(kind, [(mine, "nic")])
