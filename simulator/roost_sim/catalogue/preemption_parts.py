"""Preemption rules by name: who is stopped for whom. Definitions: docs/simulator/policies.md."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from roost_engine.policies import NoPreemption, PreemptPolicy
from roost_sim.catalogue.order_parts import remaining
from roost_sim.information.knowledge import Knowledge
from roost_sim.policies.order.gittins import GittinsIndex
from roost_sim.policies.order.job_values import attained_service, attained_time
from roost_sim.policies.order.service_levels import (
    LUCID_LIMITS_GPU_S,
    TIRESIAS_LIMITS_GPU_S,
    ServiceLevels,
)
from roost_sim.policies.order.themis import LEASE_S as THEMIS_LEASE_S
from roost_sim.policies.preemption.preemptions import (
    AndMoves,
    DisplaceBy,
    Leases,
    ShortestIfItPays,
    TimeSlices,
)
from roost_sim.worlds.fidelity import Regime

ROUND_S = 360.0  # of Gavel; Blox takes 300 s, Lucid 60 s
BLOX_ROUND_S = 300.0
LUCID_ROUND_S = 60.0
DALLY_LEASE_S = 3600.0
SLICE_S = 120.0  # Gandiva slices "in the order of minutes", 1 to 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPart:
    """Who is stopped for whom.

    Attributes:
        regime: what it is told of run times.
    """

    source: str
    build: Callable[[Knowledge], PreemptPolicy]
    regime: Regime = Regime.NONE


def _levels(limits_gpu_s: tuple[float, ...], round_s: float | None) -> PreemptPolicy:
    levels = ServiceLevels(limits_gpu_s)
    if round_s is None:
        return DisplaceBy(levels.value, next_change=levels.next_change)
    return DisplaceBy(levels.value, safe_s=round_s, round_s=round_s)


def _gittins(knowledge: Knowledge) -> PreemptPolicy:
    index = GittinsIndex(knowledge.book)
    return DisplaceBy(index.value, next_change=index.next_change)


def _srtf_pays(knowledge: Knowledge) -> PreemptPolicy:
    return ShortestIfItPays(remaining(knowledge).seconds, knowledge.restart_s)


_RULES: Mapping[str, PreemptionPart] = {
    "none": PreemptionPart(
        source="a job runs until it ends", build=lambda knowledge: NoPreemption()
    ),
    "srtf": PreemptionPart(
        source="at any event, longest remaining run time goes first",
        build=lambda knowledge: DisplaceBy(remaining(knowledge).time),
        regime=Regime.ORACLE,
    ),
    "srtf-pays": PreemptionPart(
        source="as srtf, if it pays: all victims wait for the job and for their restarts, and "
        "together less than the job would for the one that has most left",
        build=_srtf_pays,
        regime=Regime.ORACLE,
    ),
    "srsf": PreemptionPart(
        source="at any event, most remaining GPU-seconds go first",
        build=lambda knowledge: DisplaceBy(remaining(knowledge).service),
        regime=Regime.ORACLE,
    ),
    "las": PreemptionPart(
        source=f"after {ROUND_S:g} s of a run, most attained GPU-seconds go first",
        build=lambda knowledge: DisplaceBy(attained_service, safe_s=ROUND_S, round_s=ROUND_S),
    ),
    "least-run-time": PreemptionPart(
        source=f"after {BLOX_ROUND_S:g} s of a run, most attained seconds go first, as in Blox",
        build=lambda knowledge: DisplaceBy(
            attained_time, safe_s=BLOX_ROUND_S, round_s=BLOX_ROUND_S
        ),
    ),
    "tiresias": PreemptionPart(
        source="when a job falls into the next queue, and at any event",
        build=lambda knowledge: _levels(TIRESIAS_LIMITS_GPU_S, None),
    ),
    "tiresias-lucid": PreemptionPart(
        source=f"as tiresias, two queues, in rounds of {LUCID_ROUND_S:g} s",
        build=lambda knowledge: _levels(LUCID_LIMITS_GPU_S, LUCID_ROUND_S),
    ),
    "gittins-2d": PreemptionPart(
        source="when a job has had a quantum more, and at any event",
        build=_gittins,
        regime=Regime.PREDICTED,
    ),
    "time-slices": PreemptionPart(
        source=f"after {SLICE_S:g} s of a run, or ten restarts, longest running first; "
        "Xiao et al., OSDI 2018",
        build=lambda knowledge: TimeSlices(SLICE_S, knowledge.restart_s),
    ),
    "leases": PreemptionPart(
        source=f"after {DALLY_LEASE_S:g} s each job bids anew; Sharma et al., arXiv 2401.16492",
        build=lambda knowledge: Leases(DALLY_LEASE_S),
    ),
    "themis-leases": PreemptionPart(
        source=f"after {THEMIS_LEASE_S:g} s each job bids anew; Mahajan et al., NSDI 2020",
        build=lambda knowledge: Leases(THEMIS_LEASE_S),
    ),
}


def _and_moves(part: PreemptionPart) -> PreemptionPart:
    return replace(
        part,
        source=f"{part.source}; jobs that span nodes move closer together, to room that is of no "
        "use to who waits",
        build=lambda knowledge: AndMoves.of(part.build(knowledge)),
    )


_MOVING = {
    **{f"{name}-moves": name for name in ("srtf", "srtf-pays", "srsf", "las", "tiresias")},
    "gittins-moves": "gittins-2d",
}
PREEMPTIONS: Mapping[str, PreemptionPart] = {
    **_RULES,
    **{name: _and_moves(_RULES[rule]) for name, rule in _MOVING.items()},
}
