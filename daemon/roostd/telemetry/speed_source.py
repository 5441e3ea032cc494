"""What compares the speed of running jobs with what was predicted of them.

There are two: the progress that jobs report (telemetry.progress), and the activity of their GPUs
(telemetry.activity_speed). Where both know a kind of job, only what was reported counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.prediction.interference.interference_table import InterferenceTable
from roostd.telemetry.interference_file import Learned


@dataclass(frozen=True, slots=True)
class Expected:
    """What was predicted of a job that runs.

    Attributes:
        mean, spread: of its log slowdown.
        beside: (kind, level) of its neighbours.
        placement: the kind of placement.
    """

    mean: float
    spread: float
    beside: tuple[tuple[str, str], ...] = ()
    placement: str = ""


class SpeedSource(Protocol):
    """See the module.

    Attributes:
        table: what was learned of kinds.
        model: whose predictions its residuals are against.
        report_count: observations that were learned from since the start.
        fault: why what was learned before is lost, or cannot be stored; empty if neither is so.
        is_estimate: whether jobs have not reported it themselves.
        weight: as how many reports an observation counts in the table.
        error_floor: standard error of a residual that no number of observations undercuts.
    """

    table: InterferenceTable
    model: str
    report_count: int
    fault: str
    is_estimate: ClassVar[bool]
    weight: ClassVar[float]
    error_floor: ClassVar[float]

    def pairs(self) -> tuple[PairCorrection, ...]:
        """Return the pairs of kinds that correct decisions, the largest first."""

    def learned(self) -> Learned:
        """Return what is to be known after a restart."""

    def restore(self, learned: Learned) -> None:
        """Replace what is known by what was learned before a restart."""


def pairs_of_sources(sources: Sequence[SpeedSource], model: str) -> tuple[PairCorrection, ...]:
    """Return the pairs that correct the decisions of a model.

    Args:
        sources: the most reliable first; a kind that one knows is not corrected by later ones.
        model: sources of another model are passed over.
    """
    found, known = list[PairCorrection](), set[str]()
    for source in sources_of(sources, model):
        found += [pair for pair in source.pairs() if pair.kind not in known]
        known |= source.table.kinds().keys()
    return tuple(found)


def sources_of(sources: Iterable[SpeedSource], model: str) -> list[SpeedSource]:
    """Return the sources whose residuals are against the predictions of this model."""
    return [source for source in sources if source.model == model]
