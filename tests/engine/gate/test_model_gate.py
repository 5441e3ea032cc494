"""model_gate: a model says whether a job takes an offer, within limits that it cannot change."""

from math import nan

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.engine.offers import ACROSS, NODE, RACK, offer, outcome, record

from roost_engine.domain.errors import PolicyError
from roost_engine.gate.model_gate import GateLimits, ModelGate
from roost_engine.gate.offer_features import CONTEXT_COLUMNS, OFFER_COLUMNS
from roost_engine.policies.protocols import Allow, Defer
from roost_engine.policies.slots import FaultLog, GateSlot
from roost_engine.prediction.predictors import Predictors


class FakeModel:
    """Answers one number; keeps what it read."""

    name = "onnx:000000000000"

    def __init__(self, answer: float) -> None:
        self.answer, self.seen = answer, list[tuple[int, ...]]()

    def rank(self, offer: NDArray[np.float32], context: NDArray[np.float32]) -> float:
        self.seen.append(offer.shape + context.shape)
        if self.answer != self.answer:
            raise PolicyError("no number")
        return self.answer


def gate(answer: float, limits: GateLimits | None = None) -> ModelGate:
    return ModelGate(FakeModel(answer), Predictors(), limits)


def test_above_0_the_job_takes_the_offer() -> None:
    assert gate(0.1).decide(offer(record(), RACK, 0.0)) == Allow()
    waits = gate(0.0).decide(offer(record(), RACK, 0.0))
    assert waits == Defer(600.0, "onnx:000000000000 waits for a closer place")


def test_it_is_asked_only_where_a_closer_place_could_come() -> None:
    model = FakeModel(-1.0)
    asked = ModelGate(model, Predictors())
    assert asked.decide(offer(record(gpus=8), NODE, 0.0)) == Allow()
    assert asked.decide(offer(record(gpus=16), RACK, 0.0)) == Allow()
    assert asked.decide(offer(record(gpus=32), ACROSS, 0.0)) == Allow()  # no rack has 32 GPUs
    assert not model.seen
    assert isinstance(asked.decide(offer(record(gpus=16), ACROSS, 0.0)), Defer)
    assert model.seen == [(1, len(OFFER_COLUMNS), len(CONTEXT_COLUMNS))]


def test_no_job_waits_longer_than_the_limit() -> None:
    limits, job = GateLimits(defer_s=40.0, most_wait_s=100.0), record()
    waits = gate(-1.0, limits)
    assert waits.decide(offer(job, RACK, 80.0)) == Defer(
        100.0, "onnx:000000000000 waits for a closer place"
    )
    assert waits.decide(offer(job, RACK, 100.0)) == Allow()
    waits.note(outcome(job, RACK, 100.0))


def test_where_the_model_fails_the_offer_is_taken() -> None:
    faults = FaultLog()
    slot = GateSlot(gate(nan), faults, longest_s=100.0)
    assert slot.decide(offer(record(), RACK, 0.0)) == Allow()
    assert faults.counts["gate"] == 1


@pytest.mark.parametrize("waited_s", [0.0, 7_199.0])
def test_a_short_wait_ends_later_than_now(waited_s: float) -> None:
    found = gate(-1.0).decide(offer(record(), RACK, waited_s))
    assert isinstance(found, Defer)
    assert waited_s < found.until_s <= 7_200.0
