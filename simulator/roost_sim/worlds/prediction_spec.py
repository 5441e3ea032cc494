"""How the engine's predictions of run times differ from those that roostd would make."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roost_engine.prediction.run_time.history_state import HistoryState


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherSite:
    """What the jobs of a trace have taught, with its last end at engine time 0.

    Attributes:
        trace: a digest of the trace, for results files.
        history: what a history of run times knows after it.
    """

    trace: str
    history: HistoryState = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionSpec:
    """Where the engine's predictions of run times come from, and how wrong they are.

    Attributes:
        sigma: every prediction is multiplied by a random factor, log-normal with this sigma.
        stale_s: what is learned becomes known so many seconds late.
        other_site: predict by its jobs, and learn nothing; None: by the jobs that are simulated.
        model: ONNX file of a model of run times that is asked too; None: the history alone.
        model_name: by the digest of the file.
    """

    sigma: float = 0.0
    stale_s: float = 0.0
    other_site: OtherSite | None = None
    model: Path | None = None
    model_name: str = ""

    @property
    def alters_history(self) -> bool:
        """Whether the history is not the one that roostd would have."""
        return bool(self.sigma or self.stale_s or self.other_site is not None)

    def facts(self) -> Mapping[str, object]:
        """Return what differs from roostd without a model, as JSON values."""
        found: dict[str, object] = {}
        if self.sigma:
            found["prediction_sigma"] = self.sigma
        if self.stale_s:
            found["prediction_stale_s"] = self.stale_s
        if self.other_site is not None:
            found["prediction_from"] = self.other_site.trace
        if self.model is not None:
            found["run_time_model"] = self.model_name
        return found
