"""run_time_model: model and history mixed; the history alone whatever the model does."""

import re

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.prediction.run_time.test_history import DAY_S, after, of

from roost_engine.domain.actions import PolicyFailed
from roost_engine.domain.errors import PolicyError
from roost_engine.plugins.plugins import Plugins
from roost_engine.plugins.stacks import OrderKind
from roost_engine.policies.slots import RUN_TIMES, FaultLog, PredictorSlot
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.run_time_features import COLUMNS
from roost_engine.prediction.run_time.run_time_model import (
    BlendedRunTimes,
    RunTimeBlend,
)
from roost_engine.prediction.run_time.run_times import BAND_COUNT
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import waiting


class FakeModel:
    """Answers the same whatever it is asked; raises what is no array."""

    name = "fake"

    def __init__(self, answer: NDArray[np.float32] | Exception) -> None:
        self.answer = answer
        self.asked = list[NDArray[np.float32]]()

    def ending_fracs(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        self.asked.append(features)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def all_in(band: int) -> NDArray[np.float32]:
    fracs = np.zeros((1, BAND_COUNT), np.float32)
    fracs[0, band] = 1.0
    return fracs


def test_half_of_the_shares_are_the_models_and_half_the_historys() -> None:
    history, model = after((of(), 60.0)), FakeModel(all_in(20))
    blended = BlendedRunTimes(history, RunTimeBlend(model=model))
    known = history.times(of(), 5.0, 0.0)
    times = blended.times(of(), 5.0, 0.0)
    expected = known.ending_fracs / 2
    expected[20] += 0.5
    assert times.ending_fracs == pytest.approx(expected)
    assert (times.age_s, times.job_count) == (5.0, known.job_count)
    (features,) = model.asked
    assert features.shape == (1, len(COLUMNS))


def test_a_limit_holds_whatever_the_model_says() -> None:
    blended = BlendedRunTimes(after(), RunTimeBlend(model=FakeModel(all_in(32))))
    assert blended.times(of(limit_s=100.0), 0.0, 0.0).rest_s() <= 100.0


def test_a_job_is_asked_about_again_only_after_a_while_or_when_it_has_ended() -> None:
    model = FakeModel(all_in(3))
    blended = BlendedRunTimes(after(), RunTimeBlend(model=model))
    for at_s in (0.0, 10.0, 599.0):
        blended.times(of(), at_s, at_s)
    assert len(model.asked) == 1
    blended.times(of(), 0.0, 700.0)
    blended.times(of(), 0.0, 100.0)  # the clock jumped back
    assert len(model.asked) == 3
    blended.forget(of().job_id)
    blended.times(of(), 0.0, 110.0)
    assert len(model.asked) == 4


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (PolicyError("out of service"), "out of service"),
        (ZeroDivisionError("x"), "ZeroDivisionError"),
        (all_in(3)[0], r"answered \[33\]; want \[1, 33\]"),
        (np.full((1, BAND_COUNT), np.nan, np.float32), "not finite"),
        (-all_in(3), "negative"),
        (2 * all_in(3), "sum is 2, not 1"),
        (np.zeros((1, BAND_COUNT), np.float32), "sum is 0, not 1"),
    ],
)
def test_the_history_answers_for_a_model_that_fails_and_the_fault_is_counted(
    answer: NDArray[np.float32] | Exception, reason: str
) -> None:
    history, faults = after((of(), DAY_S)), FaultLog()
    blended = BlendedRunTimes(history, RunTimeBlend(model=FakeModel(answer)), faults)
    for _ in range(2):
        times = blended.times(of(), 0.0, 0.0)
        assert np.array_equal(times.ending_fracs, history.times(of(), 0.0, 0.0).ending_fracs)
    assert faults.counts == {RUN_TIMES: 2}
    (failed,) = faults.take()
    assert isinstance(failed, PolicyFailed)
    assert (failed.slot, failed.policy, failed.questions) == (RUN_TIMES, "fake", ((0, 2),))
    assert re.search(reason, failed.reason)


def test_an_engines_predictors_ask_the_model_that_they_are_made_with() -> None:
    model, faults = FakeModel(all_in(30)), FaultLog()
    plugins = Plugins(order=OrderKind.LEARNED)
    policies = plugins.policies(HeuristicScore(), run_times=RunTimeBlend(model=model))
    predictors = policies.predictors
    assert isinstance(predictors, Predictors)
    PredictorSlot(predictors, faults)  # as the engine makes it
    long_s = predictors.run_times(waiting(of()), 0.0).rest_s()
    assert long_s > 4 * Predictors().run_times(waiting(of()), 0.0).rest_s()
    model.answer = ValueError("gone")
    predictors.run_times(waiting(of(job_id="2")), 0.0)
    assert faults.counts == {RUN_TIMES: 1}


def test_a_reader_gets_the_last_answer_and_leaves_no_trace() -> None:
    model, faults, history = FakeModel(all_in(20)), FaultLog(), after((of(), 60.0))
    blended = BlendedRunTimes(history, RunTimeBlend(model=model), faults)
    in_a_pass = blended.times(of(), 0.0, 0.0)
    late = blended.peek(of(), 0.0, 9_000.0)
    assert late.ending_fracs[20] == pytest.approx(in_a_pass.ending_fracs[20], abs=0.01)
    assert len(model.asked) == 1

    model.answer = ValueError("gone")
    unknown = of(job_id="2")
    peeked = blended.peek(unknown, 0.0, 0.0)
    assert np.array_equal(peeked.ending_fracs, history.times(unknown, 0.0, 0.0).ending_fracs)
    assert faults.counts == {}
    assert faults.take() == ()
    blended.times(unknown, 0.0, 0.0)
    (failed,) = faults.take()
    assert failed.questions == ((1, 1),), "what a reader asked has no number"
