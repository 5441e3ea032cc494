"""predictors: what waits and runs teach about speed and run time."""

from copy import deepcopy

import pytest
from tests.engine.offers import ACROSS, NODE, RACK, outcome, record, run

from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord
from roost_engine.prediction.predictors import Predictors, PredictorsState
from roost_engine.prediction.speed.job_class import TimerClass
from roost_engine.prediction.speed.speed_predictor import SpeedState
from roost_engine.prediction.speed.speed_table import ModelSpeeds, TableOfSpeeds
from roost_engine.prediction.speed.tier_speeds import TierSpeeds

BERT = TierSpeeds(1.0, 0.5, 0.125)


def predictors() -> Predictors:
    """Predictors that know the speeds of bert on 8 GPUs or about as many."""
    row = ModelSpeeds(model="bert", gpu_count=8, speeds=BERT)
    return Predictors(TableOfSpeeds((row,)))


def bert(job_id: str = "1", gpus: int = 8) -> JobRecord:
    return record(job_id, gpus, model="bert", name="train")


def running_speed_frac(known: Predictors, job_id: str = "1") -> float:
    return dict(known.state().history.running)[JobId(job_id)].speed_frac


def learned_s(known: Predictors) -> float:
    """Seconds at full speed of the last run that ended."""
    return float(known.state().history.last_s[0, 0])


def test_a_job_is_classified_by_what_it_loses_one_tier_out() -> None:
    estimate, on_node = predictors().classified(bert(), NODE)
    assert estimate.speeds == BERT
    assert on_node == TimerClass.of(8, 1 - 0.5)
    assert predictors().classified(bert(gpus=16), RACK)[1] == TimerClass.of(16, 1 - 0.125 / 0.5)
    assert predictors().classified(bert(), ACROSS)[1] == TimerClass.of(8, 0.0)


@pytest.mark.parametrize(
    ("gpus", "tier", "speed_frac"),
    [
        (8, NODE, 1.0),
        (8, RACK, 0.5),
        (8, ACROSS, 0.125),
        (16, RACK, 1.0),  # on two nodes or more: one rack is the closest that it can have
        (16, ACROSS, 0.25),
    ],
)
def test_a_placed_job_runs_at_its_speed_relative_to_the_closest_tier(
    gpus: int, tier: Tier, speed_frac: float
) -> None:
    known = predictors()
    known.wait_ended(outcome(bert(gpus=gpus), tier, 10.0))
    assert running_speed_frac(known) == pytest.approx(speed_frac)


def test_a_job_that_leaves_without_a_placement_is_not_counted_as_running() -> None:
    known = predictors()
    for job_id in ("1", "2"):
        known.wait_ended(outcome(bert(job_id), NODE, 0.0))
    known.wait_ended(outcome(bert("1"), None, 10.0))
    assert [job_id for job_id, _ in known.state().history.running] == ["2"]


def test_a_stopped_job_does_not_grow_older_until_it_runs_again() -> None:
    known = predictors()
    known.wait_ended(outcome(bert(), RACK, 0.0))
    stopped = bert()
    stopped.earlier_run_s, stopped.work_s = 1_000.0, 400.0
    known.wait_began(stopped, 1_000.0)
    assert known.history.running_ages_s(1000, 50_000.0) == [400.0]
    known.wait_ended(outcome(stopped, NODE, 60_000.0))
    assert known.history.running_ages_s(1000, 60_100.0) == [500.0]


def test_a_job_that_never_ran_is_not_counted_while_it_waits() -> None:
    known = predictors()
    known.wait_began(bert(), 5.0)
    assert known.state().history.running == ()


def test_a_question_about_a_waiting_job_notes_nothing() -> None:
    known = predictors()
    known.wait_ended(outcome(bert(), NODE, 0.0))
    known.run_times(bert(), 100.0)
    assert running_speed_frac(known) == 1.0


def test_a_run_counts_by_its_reported_speed() -> None:
    known = predictors()
    known.wait_ended(outcome(bert(), NODE, 0.0))
    known.run_ended(run(bert(), 0.0, 100.0, speed_frac=0.75))
    assert learned_s(known) == pytest.approx(75.0)
    assert known.state().history.running == ()


@pytest.mark.parametrize(
    ("gpus", "nodes", "ideal_s"),
    [
        (8, ("a0",), 100.0),
        (8, ("a0", "a1"), 50.0),
        (8, ("a0", "b0"), 12.5),
        (16, ("a0", "a1"), 100.0),  # no closer tier exists for it
        (16, ("a0", "b0"), 25.0),
    ],
)
def test_a_run_without_reported_speed_counts_by_the_speed_of_its_tier(
    gpus: int, nodes: tuple[str, ...], ideal_s: float
) -> None:
    known = predictors()
    known.run_ended(run(bert(gpus=gpus), 0.0, 100.0, nodes=nodes))
    assert learned_s(known) == pytest.approx(ideal_s)


def test_a_run_teaches_the_speed_of_jobs_like_it() -> None:
    known = Predictors()
    before = known.speed.estimate(record(name="train").spec).speeds.at(RACK)
    known.run_ended(run(record(name="train"), 0.0, 100.0, nodes=("a0", "a1"), speed_frac=0.1))
    after = known.speed.estimate(record("2", name="train").spec).speeds.at(RACK)
    assert after < before
    assert known.speed.estimate(record("2", name="other").spec).speeds.at(RACK) == before


def taught() -> Predictors:
    known = predictors()
    known.wait_ended(outcome(bert("2"), RACK, 0.0))
    known.run_ended(run(bert("1"), 0.0, 100.0, nodes=("a0", "a1"), speed_frac=0.3))
    return known


def test_restored_predictors_answer_the_same() -> None:
    known, copy = taught(), predictors()
    copy.restore(known.state())
    assert copy.state() == known.state()
    for job in (bert("3"), record("4", 16)):
        assert copy.speed.estimate(job.spec) == known.speed.estimate(job.spec)
        expected_s = known.expected_times(job, 7_200.0).rest_s()
        assert copy.expected_times(job, 7_200.0).rest_s() == pytest.approx(expected_s)


def test_a_state_is_a_copy_when_taken_and_when_restored() -> None:
    known = taught()
    state = known.state()
    same = deepcopy(state)
    known.run_ended(run(bert("1"), 0.0, 50.0, nodes=("a0", "b0"), speed_frac=0.3))
    assert state == same
    known.restore(state)
    known.run_ended(run(bert("1"), 0.0, 50.0, nodes=("a0", "b0"), speed_frac=0.3))
    assert state == same


def test_restoring_an_empty_state_forgets_everything() -> None:
    known = taught()
    assert known.state().speed != SpeedState()
    known.restore(PredictorsState())
    assert known.state().history == PredictorsState().history
    assert known.state().speed.seen == ()
    assert known.speed.estimate(bert().spec) == predictors().speed.estimate(bert().spec)


def distrusted(known: Predictors) -> Predictors:
    """Return predictors after runs that came out the other way round than expected."""
    for number in range(112):
        known.skill.expect(JobId(str(number)), 200.0 - number)
        known.skill.end(JobId(str(number)), float(number))
    return known


def test_lost_trust_in_what_is_left_comes_through_a_restart() -> None:
    known, fresh = distrusted(Predictors()), Predictors()
    assert fresh.service_left.is_trusted()
    fresh.restore(known.state())
    assert not fresh.service_left.is_trusted()
    assert distrusted(Predictors(earned_trust=False)).service_left.is_trusted()
