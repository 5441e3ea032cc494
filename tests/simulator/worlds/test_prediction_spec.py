"""Where predictions come from, as results files tell it."""

from pathlib import Path

from roost_engine.prediction.run_time.history_state import HistoryState
from roost_sim.worlds.prediction_spec import OtherSite, PredictionSpec


def test_nothing_is_told_of_predictions_as_roostd_makes_them() -> None:
    assert PredictionSpec().facts() == {}
    assert not PredictionSpec().alters_history


def test_all_that_differs_is_told() -> None:
    spec = PredictionSpec(
        sigma=1.0,
        stale_s=60.0,
        other_site=OtherSite(trace="abc", history=HistoryState()),
        model=Path("m.onnx"),
        model_name="onnx:1",
    )
    assert spec.alters_history
    assert spec.facts() == {
        "prediction_sigma": 1.0,
        "prediction_stale_s": 60.0,
        "prediction_from": "abc",
        "run_time_model": "onnx:1",
    }


def test_a_model_alone_leaves_the_history_as_it_is() -> None:
    assert not PredictionSpec(model=Path("m.onnx"), model_name="onnx:1").alters_history
