"""roostd.telemetry.speed_source: what jobs report wins over what activity suggests."""

from math import exp

from roostd.telemetry.activity_speed import ActivityTracker
from roostd.telemetry.progress import ProgressTracker
from roostd.telemetry.speed_source import SpeedSource, pairs_of_sources


def sources() -> tuple[ProgressTracker, ActivityTracker]:
    reported, estimated = ProgressTracker(), ActivityTracker()
    reported.use_model("onnx:1")
    estimated.use_model("onnx:1")
    for tracker in (reported, estimated):
        tracker.table.observe("1 lm", [("2 foe", "nic")], 0.1, 0.3, exp(-0.6))
    estimated.table.observe("1 lm", [("2 other", "nic")], 0.1, 0.3, exp(-0.6))
    estimated.table.observe("1 vgg", [("2 foe", "nic")], 0.1, 0.3, exp(-0.6))
    return reported, estimated


def test_a_kind_that_reports_is_not_corrected_by_activity() -> None:
    reported, estimated = sources()
    both: tuple[SpeedSource, ...] = reported, estimated
    found = pairs_of_sources(both, "onnx:1")
    assert [(pair.kind, pair.beside) for pair in found] == [("1 lm", "2 foe"), ("1 vgg", "2 foe")]
    assert found[0] == reported.pairs()[0]


def test_sources_of_another_model_are_passed_over() -> None:
    reported, estimated = sources()
    estimated.use_model("onnx:2")
    assert pairs_of_sources((reported, estimated), "onnx:1") == reported.pairs()
    assert pairs_of_sources((reported, estimated), "onnx:3") == ()
