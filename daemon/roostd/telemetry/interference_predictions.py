"""What neighbours are predicted to cost a job that runs, to compare with what it reports.

The model is that of the score in service where it is one of neighbours (`policy.model`), otherwise
the model that ships with Roost: so a site sees how good it is before it decides anything.
"""

import asyncio
from collections.abc import Callable

import structlog

from roost_engine.domain.errors import PolicyError
from roost_engine.domain.job_kind import kind_of
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import Engine
from roost_engine.job_record import JobRecord
from roost_engine.policies.neighbour_losses import PredictsLosses
from roost_engine.prediction.interference.interference_estimates import InterferenceEstimates
from roost_engine.prediction.interference.interference_model import InterferenceModel
from roost_engine.scoring.neighbours import NeighbourScore
from roost_formats.models.interference import load_interference
from roostd.telemetry.speed_source import Expected

_log = structlog.get_logger(__name__)

Load = Callable[[], tuple[InterferenceModel, str | None]]


class InterferencePredictions:
    """See the module.

    Args:
        load: loads the model that ships with Roost.

    Attributes:
        fault: why the model is not asked; empty where it is.
    """

    def __init__(self, load: Load = load_interference) -> None:
        self._load = load
        self._shipped: PredictsLosses | None = None
        self.fault = ""

    async def ready(self, engine: Engine) -> str:
        """Load a model if one is needed. Returns the name of the model that is asked."""
        score = engine.policies.score
        if isinstance(score, PredictsLosses):
            return score.name
        if self._shipped is None:
            model, fault = await asyncio.to_thread(self._load)
            if fault:
                _log.error("interference_model_not_loaded", error=fault)
            self._shipped, self.fault = NeighbourScore(InterferenceEstimates(model)), fault or ""
        return self._shipped.name

    def of(self, engine: Engine, record: JobRecord) -> Expected | None:
        """Return what is predicted of a job; None where the model could not answer."""
        score = engine.policies.score
        asked = score if isinstance(score, PredictsLosses) else self._shipped
        if asked is None:
            return None

        def spec_of(job_id: JobId) -> JobSpec | None:
            found = engine.managed(job_id)
            return None if found is None else found.spec

        try:
            found = asked.loss_of(engine.cluster, record.job_id, spec_of)
        except PolicyError as error:
            self.fault = str(error)
            return None
        if found is None:
            return None
        named = [(spec_of(job_id), level) for job_id, level in found.beside]
        beside = tuple((kind_of(spec), level) for spec, level in named if spec is not None)
        return Expected(found.mean, found.spread, beside, found.tier.name.lower())
