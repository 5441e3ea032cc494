"""Preemption rules by name: which running jobs are preempted for a waiting job.

Definitions: docs/simulator/policies.md. The name of a rule with a lease that roostd has too may
carry another lease in seconds, as in `las-closer-moves:360`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from roost_engine.plugins.policy_kinds import PreemptionNumbers, make_preemption
from roost_engine.policies.heuristics import NoPreemption
from roost_engine.policies.preemption_protocols import PreemptPolicy
from roost_engine.preemption.network_preemption import NetworkPreemptionConfig
from roost_engine.preemption.rules import (
    DALLY_LEASE_S,
    LONG_ROUND_S,
    ROUND_S,
    DisplaceAndMove,
    DisplaceBy,
    KnownLeftMovesConfig,
    LasMovesConfig,
    LearnedMovesConfig,
    Leases,
    LeasesConfig,
)
from roost_engine.queue.orders import attained_service
from roost_sim.catalogue.orders import remaining
from roost_sim.errors import SimError
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.policies.order.gittins import GittinsIndex
from roost_sim.policies.order.job_values import attained_time
from roost_sim.policies.order.service_levels import (
    LUCID_LIMITS_GPU_S,
    TIRESIAS_LIMITS_GPU_S,
    ServiceLevels,
)
from roost_sim.policies.order.themis import LEASE_S as THEMIS_LEASE_S
from roost_sim.policies.preemption.preemption_rules import (
    ShortestIfItPays,
    ShortestIfItPaysAndMoves,
    TimeSlices,
)
from roost_sim.worlds.fidelity import Regime

BLOX_ROUND_S = 300.0  # Gavel, and so `las`, takes 360 s
LUCID_ROUND_S = 60.0
SLICE_S = 120.0  # Gandiva slices "in the order of minutes", 1 to 2
_WithLease = LasMovesConfig | LearnedMovesConfig | KnownLeftMovesConfig | LeasesConfig


class LeaseError(SimError):
    """The lease in a rule's name cannot be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionPart:
    """One preemption rule: how to build it, and what it needs to know.

    Attributes:
        source: its definition in a line, with the paper.
        build: makes the engine's plug-in.
        regime: what it knows about run times.
        asks_speed: whether it depends on how fast jobs run.
        numbers: of a rule that roostd has too: the engine's plug-ins make it from them, in place of
            `build`.
    """

    source: str
    build: Callable[[PolicyInformation], PreemptPolicy]
    regime: Regime = Regime.NONE
    asks_speed: bool = False
    numbers: Callable[[PolicyInformation], PreemptionNumbers] | None = None


def _of_roostd(
    numbers: Callable[[PolicyInformation], PreemptionNumbers],
    source: str,
    asks_speed: bool = False,
) -> PreemptionPart:
    """Take a rule from the engine."""
    return PreemptionPart(
        source=source,
        build=lambda information: make_preemption(numbers(information)).rule,
        asks_speed=asks_speed,
        numbers=numbers,
    )


def _tiresias(rule: type[DisplaceBy]) -> PreemptPolicy:
    levels = ServiceLevels(TIRESIAS_LIMITS_GPU_S)
    return rule(levels.value, next_change=levels.next_change)


def _gittins(rule: type[DisplaceBy], information: PolicyInformation) -> PreemptPolicy:
    index = GittinsIndex(information.progress)
    return rule(index.value, next_change=index.next_change)


def _srtf_pays(rule: type[ShortestIfItPays], information: PolicyInformation) -> PreemptPolicy:
    return rule(remaining(information).seconds, information.restart_s)


_RULES: Mapping[str, PreemptionPart] = {
    "none": PreemptionPart(
        source="a job runs until it ends", build=lambda information: NoPreemption()
    ),
    "srtf": PreemptionPart(
        source="at any event, longest remaining run time goes first",
        build=lambda information: DisplaceBy(remaining(information).time),
        regime=Regime.ORACLE,
    ),
    "srtf-pays": PreemptionPart(
        source="as srtf, if it pays: the victims' waits, each for the job and its own restart, add "
        "up to less than the longest remaining run time among them",
        build=partial(_srtf_pays, ShortestIfItPays),
        regime=Regime.ORACLE,
    ),
    "srsf": PreemptionPart(
        source="at any event, most remaining GPU-seconds go first",
        build=lambda information: DisplaceBy(remaining(information).service),
        regime=Regime.ORACLE,
    ),
    "las": PreemptionPart(
        source=f"after {ROUND_S:g} s of a run, most attained GPU-seconds go first",
        build=lambda information: DisplaceBy(
            attained_service, safe_s=ROUND_S, round_s=ROUND_S, ranks_by_runs=True, grows=True
        ),
    ),
    "least-run-time": PreemptionPart(
        source=f"after {BLOX_ROUND_S:g} s of a run, most attained seconds go first, as in Blox",
        build=lambda information: DisplaceBy(
            attained_time, safe_s=BLOX_ROUND_S, round_s=BLOX_ROUND_S
        ),
    ),
    "tiresias": PreemptionPart(
        source="when a job enters the next queue, and at any event",
        build=lambda information: _tiresias(DisplaceBy),
    ),
    "tiresias-lucid": PreemptionPart(
        source=f"as tiresias, two queues, in rounds of {LUCID_ROUND_S:g} s",
        build=lambda information: DisplaceBy(
            ServiceLevels(LUCID_LIMITS_GPU_S).value, safe_s=LUCID_ROUND_S, round_s=LUCID_ROUND_S
        ),
    ),
    "gittins-2d": PreemptionPart(
        source="when a job has received a further quantum, and at any event",
        build=partial(_gittins, DisplaceBy),
        regime=Regime.PREDICTED,
    ),
    "time-slices": PreemptionPart(
        source=f"after {SLICE_S:g} s of a run, or ten restarts, longest running first; "
        "Xiao et al., OSDI 2018",
        build=lambda information: TimeSlices(SLICE_S, information.restart_s),
    ),
    "leases": _of_roostd(
        lambda information: LeasesConfig(partitions=information.partitions),
        f"after {DALLY_LEASE_S:g} s jobs compete again; Sharma et al., arXiv 2401.16492",
    ),
    "network": _of_roostd(
        lambda information: NetworkPreemptionConfig(partitions=information.partitions or ()),
        "the jobs that the network has served best go first, for a job that has waited long, at "
        "most two an hour; docs/preemption.md",
        asks_speed=True,
    ),
    "themis-leases": PreemptionPart(
        source=f"after {THEMIS_LEASE_S:g} s jobs compete again; Mahajan et al., NSDI 2020",
        build=lambda information: Leases(THEMIS_LEASE_S),
    ),
}


def _with_migration(source: str) -> str:
    return (
        f"{source}; jobs on several nodes migrate closer together, to capacity that no waiting job "
        "can use"
    )


def _moves(rule: str, build: Callable[[PolicyInformation], PreemptPolicy]) -> PreemptionPart:
    part = _RULES[rule]
    return replace(part, source=_with_migration(part.source), build=build)


PREEMPTIONS: Mapping[str, PreemptionPart] = {
    **_RULES,
    "srtf-moves": _moves("srtf", lambda information: DisplaceAndMove(remaining(information).time)),
    "srtf-pays-moves": _moves("srtf-pays", partial(_srtf_pays, ShortestIfItPaysAndMoves)),
    "srsf-moves": _moves(
        "srsf", lambda information: DisplaceAndMove(remaining(information).service)
    ),
    "las-moves": _of_roostd(
        lambda information: LasMovesConfig(partitions=information.partitions),
        _with_migration(_RULES["las"].source),
    ),
    "tiresias-moves": _moves("tiresias", lambda information: _tiresias(DisplaceAndMove)),
    "gittins-moves": _moves("gittins-2d", partial(_gittins, DisplaceAndMove)),
    "learned-moves": replace(
        _of_roostd(
            lambda information: LearnedMovesConfig(partitions=information.partitions),
            f"after {ROUND_S:g} s of a run, most expected GPU-seconds left go first, by the order "
            "learned-left; jobs on several nodes migrate closer together",
        ),
        regime=Regime.PREDICTED,
    ),
    "known-left-moves": replace(
        _of_roostd(
            lambda information: KnownLeftMovesConfig(partitions=information.partitions),
            f"as las-closer-moves, after {LONG_ROUND_S:g} s of a run, by the values of the order "
            "known-left",
        ),
        regime=Regime.PREDICTED,
    ),
    "las-closer-moves": _of_roostd(
        lambda information: LasMovesConfig(
            partitions=information.partitions, lease_s=LONG_ROUND_S, serves_deferred=True
        ),
        f"as las-moves, but after {LONG_ROUND_S:g} s of a run; also for a job that the gate lets "
        "wait, on the closest tier that it could have",
    ),
}


def preemption_part(name: str) -> PreemptionPart:
    """Return the rule of a name, with the lease that the name carries.

    Raises:
        LeaseError: the rule has no lease that a name can replace, or what follows is no lease.
        KeyError: no rule has this name.
    """
    kind, colon, text = name.partition(":")
    part = PREEMPTIONS[kind]
    if not colon:
        return part
    lease_s = _lease_s(name, text)
    usual = part.numbers

    def numbers(information: PolicyInformation) -> PreemptionNumbers:
        found = None if usual is None else usual(information)
        if not isinstance(found, _WithLease):
            raise LeaseError(f"{name}: rule {kind} has no lease to replace")
        return replace(found, lease_s=lease_s)

    numbers(PolicyInformation(work_s={}, seed=0))
    source = f"{part.source}; with a lease of {lease_s:g} s"
    return replace(_of_roostd(numbers, source, part.asks_speed), regime=part.regime)


def _lease_s(name: str, text: str) -> float:
    try:
        lease_s = float(text)
    except ValueError as error:
        raise LeaseError(f"{name}: want seconds after the colon, got {text!r}") from error
    if not 0 < lease_s < inf:
        raise LeaseError(f"{name}: want seconds above 0 after the colon, got {text!r}")
    return lease_s
