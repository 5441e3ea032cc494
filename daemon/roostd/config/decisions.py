"""The sections about decisions: order, placement, score, gate, preemption, the engine's numbers.

A part that is null here is the stack's (roostd.config.stack_choice). The others turn into the
core's own plain dataclasses. The defaults of both are the same; a test compares.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from math import inf
from typing import Annotated, assert_never

from pydantic import Field

from roost_engine.engine import EngineConfig, Passing
from roost_engine.gate.delay import DelayConfig
from roost_engine.gate.timers import TimerConfig
from roost_engine.plugins.gate_kinds import GateNumbers, gate_numbers
from roost_engine.plugins.policy_kinds import PreemptionNumbers, ends_of
from roost_engine.plugins.stacks import (
    LONGEST_WAIT_S,
    GateKind,
    OrderKind,
    PlacementKind,
    PreemptionKind,
)
from roost_engine.prediction.run_time.foreseen_ends import EndsConfig
from roost_engine.prediction.service import ServiceIndex
from roost_engine.preemption.network_preemption import NetworkPreemptionConfig
from roost_engine.preemption.rules import (
    LONG_ROUND_S,
    KnownLeftMovesConfig,
    LasMovesConfig,
    LearnedMovesConfig,
    LeasesConfig,
)
from roost_engine.queue.learned_order import Fairness, LearnedOrderConfig
from roostd.config.values import (
    NO_MODEL,
    AbsolutePath,
    Count,
    CountFromZero,
    Factor,
    FactorOrNever,
    RunTimeModelPath,
    Seconds,
    SecondsFromZero,
    SecondsOrNever,
    Section,
)

_ENDS = {"passing_frac", "most_delay_s"}


class OrderSection(Section):
    """Which waiting job is offered GPUs next."""

    kind: Annotated[OrderKind, Field(strict=False)] | None = Field(
        default=None,
        description="priority (Slurm's), las (least attained GPU-seconds), s-rank (least of the"
        " ideal speed achieved), learned (least expected GPU-seconds), learned-left (least"
        " expected GPU-seconds left) or known-left (las to eight GPU-hours, then as"
        " learned-left where a job of the same user and size has ended); null: the stack's",
    )
    index: Annotated[ServiceIndex, Field(strict=False)] = Field(
        default=ServiceIndex.MEAN,
        description="what a job is expected to need: mean (expected GPU-seconds), gittins"
        " (GPU-seconds for each end, over the best span ahead) or risk (expected GPU-seconds if it"
        " outlives the median); this and the next five: kind learned",
    )
    fairness: Annotated[Fairness, Field(strict=False)] = Field(
        default=Fairness.FREE,
        description="how far the order may depart from Slurm's priority: strict (among equal"
        " priorities only), band (within a band of it) or free",
    )
    band: Count = Field(
        default=1_000, description="width of a band of priority; only for fairness band"
    )
    ageing: Factor = Field(
        default=2.0,
        description="seconds of earlier submission that make up for one more expected GPU-second;"
        " 0: first come, first served",
    )
    window_s: SecondsFromZero = Field(
        default=6 * 86_400.0,
        description="a job is never overtaken by jobs that become eligible this much later; while"
        " jobs wait, window_backlogs makes this longer",
    )
    window_backlogs: Factor = Field(
        default=64.0,
        description="added to window_s: this many times the time that the waiting jobs are"
        " expected to take on all GPUs",
    )
    reads_limits: bool = Field(
        default=True,
        description="whether the time limits that users give tell something about run times; this"
        " and the next: kinds learned, learned-left and known-left",
    )
    run_time_model: RunTimeModelPath = Field(
        default=NO_MODEL,
        description="none (the history of run times alone), or the path of an ONNX file that is"
        " asked too; roost-train runtimes makes one",
    )
    share_slack: FactorOrNever = Field(
        default=inf,
        description="a user goes behind other users for a window when the GPU-seconds that the"
        " user's jobs have lately had and still need exceed this many times the user's share; or"
        " never; kind learned",
    )
    earned_trust: bool = Field(
        default=True,
        description="whether expected run times count only as far as they have lately put jobs in"
        " the right order; false: they count in full; kinds learned and learned-left",
    )
    longest_wait_s: SecondsOrNever = Field(
        default=LONGEST_WAIT_S,
        description="a job that has waited so long goes before all that have not, nodes are"
        " reserved for it, and it is not stopped; or never; kinds las, s-rank, learned-left"
        " and known-left",
    )
    passing_frac: Annotated[float, Field(gt=0, le=1)] = Field(
        default=1.0,
        description="a job may use reserved nodes if this fraction of the jobs like it ends in"
        " time; 1: if its time limit ends in time; this and the next: kinds learned and"
        " learned-left",
    )
    most_delay_s: SecondsFromZero = Field(
        default=0.0,
        description="with passing_frac below 1 the job's time limit must also end no later than"
        " this long after the start that was promised first",
    )

    def to_core(self) -> LearnedOrderConfig:
        """Return the numbers of the learned order as plain data for the core."""
        others = {"kind", "run_time_model", "longest_wait_s", *_ENDS}
        return LearnedOrderConfig(**self.model_dump(exclude=others))

    def ends(self, kind: OrderKind) -> EndsConfig | None:
        """Return how predictions take part in reservations; None: they do not."""
        usual = ends_of(kind)
        return usual and replace(usual, **self.model_dump(include=_ENDS))


class PlacementSection(Section):
    """Which placements are proposed."""

    kind: Annotated[PlacementKind, Field(strict=False)] | None = Field(
        default=None,
        description="consolidation (of the job's tightest shape that has capacity now), strict"
        " (of its tightest shape, for which it waits), common-shapes (as strict, but of shapes"
        " that many nodes could hold), tight-gangs (as consolidation, gangs as strict) or wide (as"
        " consolidation, with more nodes, for policy.model: graph); null: the stack's",
    )
    foreign_memory_frac: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1,
        description="a free GPU is given out last while processes of no job use more than this"
        " fraction of its memory, and more than 1 GiB; 1: like any other GPU",
    )


class PolicySection(Section):
    """Which policy scores candidates."""

    model: str | None = Field(
        default=None,
        description="builtin, graph, neighbours, none (the heuristic alone), or the path of an"
        " ONNX file; null: the stack's",
    )


class EngineSection(Section):
    """The engine's numbers; the same as roost_engine.domain.config.EngineConfig."""

    passing: Annotated[Passing, Field(strict=False)] = Field(
        default=Passing.EASY,
        description="which jobs may pass the first one that has waited out its patience and does"
        " not fit: easy (jobs that do not delay it, by all time limits) or nobody",
    )
    patience_s: SecondsOrNever | None = Field(
        default=None,
        description="after waiting this long a job has nodes reserved for it; never: it has none;"
        " null: the stack's",
    )
    start_timeout_s: Annotated[Seconds, Field(ge=0.1)] = Field(
        default=10.0,
        description="a placed job that Slurm has not started within this time is decided again",
    )
    stop_timeout_s: Seconds = Field(
        default=60.0,
        description="a plan to stop jobs is dropped when Slurm has not stopped one within this"
        " time",
    )
    refusal_backoff_s: Seconds = Field(
        default=2.0, description="pause after the first refusal; doubles with each one"
    )
    refusal_limit: Count = Field(
        default=6, description="after this many refusals in a row the job is released to Slurm"
    )
    gate_longest_s: Annotated[Seconds, Field(ge=1)] = Field(
        default=30 * 86_400.0,
        description="a job that has waited this long takes what it is offered, whatever the gate"
        " answers; more than gate.longest_s",
    )
    window_count: Count = Field(
        default=1000,
        description="jobs of the queue that one pass tries; the next pass continues there",
    )
    ended_job_count: CountFromZero = Field(
        default=1000, description="ended jobs that can still be explained"
    )
    agents: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1,
        description="parts of the cluster, each with a queue of its own; 1: one queue for all"
        " nodes (docs/graph.md)",
    )

    def to_core(self, patience_s: float) -> EngineConfig:
        """Return the same as plain data for the core, with the patience of the stack in effect."""
        return EngineConfig(**self.model_dump(exclude={"patience_s"}), patience_s=patience_s)


class GateSection(Section):
    """Whether jobs wait for better GPUs than are free now. Page: docs/delay.md."""

    kind: Annotated[GateKind, Field(strict=False)] | None = Field(
        default=None,
        description="which gate; open: no job waits; docs/delay.md lists the kinds; null: the"
        " stack's, and jobs wait in the default one",
    )
    delay_weight: Annotated[float, Field(ge=0, le=100)] = Field(
        default=1.0, description="weight of a second of waiting against a second of run time saved"
    )
    crowding_weight: Annotated[float, Field(ge=0, le=100)] = Field(
        default=1.0, description="weight of each second by which other waiting jobs start sooner"
    )
    limit_frac: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.15, description="longest wait of a job, as a fraction of its time limit"
    )
    longest_s: SecondsFromZero = Field(default=86_400.0, description="longest wait of any job")
    idle_frac: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.5, description="no job waits while this fraction of the cluster's GPUs is free"
    )
    lease_s: Seconds | None = Field(
        default=None,
        description="a running job is placed again after this time, so a wait gains no more than"
        " that; null: it stays",
    )
    uplink_frac: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.1,
        description="kind uplink-delay: shortest wait for a rack before a job runs across racks, as"
        " a fraction of its expected run time, half an hour at most",
    )
    waits_for_quiet: bool = Field(
        default=False,
        description="with policy.model neighbours: a job also waits for a place whose neighbours"
        " cost it less",
    )
    quantile_frac: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.9, description="quantile of the waits for a better tier that becomes the timer"
    )
    half_life_s: Seconds = Field(
        default=86_400.0, description="a wait that ended this long ago counts half"
    )
    window_count: Count = Field(default=100, description="how many of a class's newest waits count")
    prior_wait_s: Seconds = Field(
        default=1_800.0, description="mean wait that is assumed before any is observed"
    )
    prior_count: Annotated[Factor, Field(gt=0)] = Field(
        default=2.0, description="weight of that assumption, as a number of observed waits"
    )
    speeds: AbsolutePath | None = Field(
        default=None, description="CSV file of the speeds of models that users name; null: none"
    )

    def to_core(self, kind: GateKind) -> GateNumbers:
        """Return the numbers of a kind of gate as plain data for the core."""
        unset = gate_numbers(kind)
        match unset:
            case DelayConfig():  # the settings of this section are those of the delay gate
                numbers = self.model_dump(exclude={"kind", "speeds"})
                timers = {field.name: numbers.pop(field.name) for field in fields(TimerConfig)}
                numbers["lease_s"] = inf if self.lease_s is None else self.lease_s
                if not unset.uplink_frac:
                    numbers["uplink_frac"] = 0.0
                return DelayConfig(timers=TimerConfig(**timers), **numbers)
            case _:
                return unset


class PreemptionSection(Section):
    """Stops running jobs for waiting ones in partitions that allow it. Page: docs/preemption.md."""

    kind: Annotated[PreemptionKind, Field(strict=False)] | None = Field(
        default=None,
        description="which rule, such as network; docs/preemption.md lists the kinds; null: the"
        " stack's, none in the default one",
    )
    lease_s: Seconds | None = Field(
        default=None,
        description="a job that started is not stopped for this long; null: 360 with las-moves and"
        " learned-moves, 1800 with las-closer-moves and known-left-moves, else 3600",
    )
    patience_s: Seconds = Field(
        default=600.0,
        description="a job has waited this long before others are stopped for it; this and the"
        " next four: kind network",
    )
    restart_s: SecondsFromZero = Field(
        default=120.0, description="what a restart costs a job beside its lost work"
    )
    cooldown_s: Seconds = Field(
        default=7_200.0,
        description="from one request to stop a job to the next request to stop the same job",
    )
    budget_per_hour: CountFromZero = Field(
        default=2, description="the most jobs of one partition that are stopped in an hour"
    )
    moves: bool = Field(
        default=False, description="jobs are also stopped to migrate to GPUs closer together"
    )
    qos: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="jobs of these QoS may be stopped though they name no checkpoint interval",
    )

    def to_core(self, kind: PreemptionKind, partitions: Sequence[str]) -> PreemptionNumbers:
        """Return the numbers of a rule as plain data; None where no partition allows preemption."""
        if not partitions or kind is PreemptionKind.NONE:
            return None
        named, lease_s = tuple(sorted(partitions)), self.lease_of(kind)
        match kind:
            case PreemptionKind.NETWORK:
                numbers = self.model_dump(exclude={"kind", "lease_s", "qos"})
                return NetworkPreemptionConfig(partitions=named, lease_s=lease_s, **numbers)
            case PreemptionKind.LAS_MOVES | PreemptionKind.LAS_CLOSER_MOVES:
                is_closer = kind is PreemptionKind.LAS_CLOSER_MOVES
                return LasMovesConfig(partitions=named, lease_s=lease_s, serves_deferred=is_closer)
            case PreemptionKind.LEARNED_MOVES:
                return LearnedMovesConfig(partitions=named, lease_s=lease_s)
            case PreemptionKind.KNOWN_LEFT_MOVES:
                return KnownLeftMovesConfig(partitions=named, lease_s=lease_s)
            case PreemptionKind.LEASES:
                return LeasesConfig(partitions=named, lease_s=lease_s)
            case _:
                assert_never(kind)

    def lease_of(self, kind: PreemptionKind) -> float:
        """Return the lease under a rule: the given one, or that of the rule."""
        if self.lease_s is not None:
            return self.lease_s
        match kind:
            case PreemptionKind.LAS_MOVES:
                return LasMovesConfig().lease_s
            case PreemptionKind.LAS_CLOSER_MOVES:
                return LONG_ROUND_S
            case PreemptionKind.LEARNED_MOVES:
                return LearnedMovesConfig().lease_s
            case PreemptionKind.KNOWN_LEFT_MOVES:
                return KnownLeftMovesConfig().lease_s
            case PreemptionKind.LEASES:
                return LeasesConfig().lease_s
            case PreemptionKind.NETWORK | PreemptionKind.NONE:
                return NetworkPreemptionConfig().lease_s
            case _:
                assert_never(kind)
