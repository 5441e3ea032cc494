"""The gate that a model makes: it reads an offer and says whether the job takes it.

A job is asked about only where a closer place could come, and may decline for `most_wait_s` in all,
whatever the model says: no job waits for ever. Page: docs/learned.md.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roost_engine.cluster.tiers import closest_tier
from roost_engine.gate.offer_features import context_of, offer_of
from roost_engine.policies.protocols import Allow, Defer, GateVerdict, Offer, WaitEnded
from roost_engine.prediction.predictors import Predictors


class GateModel(Protocol):
    """A model of kind `gate`."""

    @property
    def name(self) -> str:
        """What operators call it: "onnx:" and twelve digits of the sha256."""

    def rank(self, offer: NDArray[np.float32], context: NDArray[np.float32]) -> float:
        """Return a finite number: above 0 the job takes the offer, else it waits.

        Args:
            offer: float32 [1, offer_features.OFFER_COLUMNS].
            context: float32 [offer_features.CONTEXT_COLUMNS].

        Raises:
            PolicyError: the model cannot answer.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class GateLimits:
    """What a model in the gate slot may do; an agent in training has the same limits.

    Attributes:
        defer_s: how long a declined offer is not made again, unless capacity is freed.
        most_wait_s: how long a job may decline; later it takes what there is.
    """

    defer_s: float = 600.0
    most_wait_s: float = 2 * 3_600.0

    def may_wait(self, offer: Offer) -> bool:
        """Return whether a closer place could come for the job, and it may still decline."""
        closest = closest_tier(offer.cluster, offer.job.spec)
        return offer.tier > closest and offer.waited_s < self.most_wait_s

    def deferred(self, offer: Offer, reason: str) -> Defer:
        """Return the verdict that the job declines."""
        until_s = min(offer.at_s + self.defer_s, offer.at_s - offer.waited_s + self.most_wait_s)
        return Defer(max(until_s, offer.at_s + 1.0), reason)


class ModelGate:
    """A GatePolicy; see the module.

    Args:
        model: decides.
        predictors: say what the job loses on wider tiers.
        limits: of its waits.
    """

    def __init__(
        self, model: GateModel, predictors: Predictors, limits: GateLimits | None = None
    ) -> None:
        self.name, self.limits = model.name, limits or GateLimits()
        self._model, self._predictors = model, predictors

    def decide(self, offer: Offer) -> GateVerdict:
        """See GatePolicy."""
        if not self.limits.may_wait(offer):
            return Allow()
        line = offer_of(offer, self._predictors, self.limits.most_wait_s)
        spec, gpu_count = offer.job.spec, offer.shape.gpu_count
        context = context_of(spec, gpu_count, offer.cluster, self._predictors)
        if self._model.rank(line, context) > 0.0:
            return Allow()
        return self.limits.deferred(offer, f"{self.name} waits for a closer place")

    def note(self, outcome: WaitEnded) -> None:
        """See GatePolicy: a model learns nothing here."""
