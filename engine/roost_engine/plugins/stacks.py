"""The stacks: named choices of one policy for each decision, made for production.

A stack is plain data. roostd reads its name from `stack` in roostd.yaml, the simulator has a policy
of the same name, and both build it from here, so what was simulated is what runs. Each part has the
same name in both programs. Page: docs/stacks.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from types import MappingProxyType


class OrderKind(StrEnum):
    """Which job is offered GPUs next."""

    PRIORITY = "priority"  # Slurm's priority, then submission
    LAS = "las"  # least attained GPU-seconds
    S_RANK = "s-rank"  # least of the ideal speed achieved
    LEARNED = "learned"  # least expected GPU-seconds, by the run times of jobs like it
    LEARNED_LEFT = "learned-left"  # the same of what is left: for stacks that stop jobs
    KNOWN_LEFT = "known-left"  # as LAS until a job has had 8 GPU-hours; then as LEARNED_LEFT where
    #                            a job of its user and size has ended

    @property
    def has_ageing(self) -> bool:
        """Whether the order itself bounds what may pass a job: by Slurm's ageing, or its own."""
        return self in (OrderKind.PRIORITY, OrderKind.LEARNED)

    @property
    def reads_predictors(self) -> bool:
        """Whether the order asks what is expected of jobs."""
        return self not in (OrderKind.PRIORITY, OrderKind.LAS)


class PlacementKind(StrEnum):
    """Which placements are proposed."""

    CONSOLIDATION = "consolidation"  # of the tightest shape that has capacity now
    STRICT = "strict"  # of the tightest shape only
    TIGHT_GANGS = "tight-gangs"  # the first; but for several nodes of the tightest shape only
    COMMON_SHAPES = "common-shapes"  # as STRICT, of shapes that many nodes could hold
    WIDE = "wide"  # as the first, on more nodes: for models that read the cluster


class GateKind(StrEnum):
    """Whether jobs wait for better GPUs than are free now."""

    OPEN = "open"  # no job waits
    DELAY = "delay"  # a job waits where the expected gain outweighs the wait
    UPLINK_DELAY = "uplink-delay"  # the same, and a little before it runs across racks
    DALLY = "dally"  # as in the code of Dally's authors


class PreemptionKind(StrEnum):
    """Which running jobs are stopped, where a partition allows it."""

    NONE = "none"  # no job
    NETWORK = "network"  # the jobs served best by the network, within a budget
    LAS_MOVES = "las-moves"  # the jobs with most attained GPU-seconds; jobs also migrate
    LAS_CLOSER_MOVES = "las-closer-moves"  # the same, also for a job that waits for a closer place
    LEARNED_MOVES = "learned-moves"  # the jobs with most GPU-seconds left, as far as is expected
    KNOWN_LEFT_MOVES = "known-left-moves"  # las-closer-moves, by the values of the order known-left
    LEASES = "leases"  # every job whose lease has ended; it competes again


NO_MODEL = "none"
BUILTIN_MODEL = "builtin"
GRAPH_MODEL = "graph"  # ships with Roost; reads the cluster too
NEIGHBOURS_MODEL = "neighbours"  # the heuristic less what neighbours cost
DEFAULT_PATIENCE_S = 600.0
LONGEST_WAIT_S = 30 * 86_400.0  # of orders without ageing


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """One policy for each decision.

    Attributes:
        name: of the stack.
        order: which job is offered GPUs next.
        placement: which placements are proposed.
        model: the ONNX model that scores them: `builtin`, a path, or `none` for the heuristic.
        gate: whether a job takes an offer.
        patience_s: after waiting this long a job has nodes reserved for it; inf: never.
        preemption: which running jobs are stopped for others.
    """

    name: str
    order: OrderKind = OrderKind.PRIORITY
    placement: PlacementKind = PlacementKind.CONSOLIDATION
    model: str = NO_MODEL
    gate: GateKind = GateKind.OPEN
    patience_s: float = DEFAULT_PATIENCE_S
    preemption: PreemptionKind = PreemptionKind.NONE


DEFAULT = Stack(
    name="default",
    placement=PlacementKind.COMMON_SHAPES,
    model=BUILTIN_MODEL,
    gate=GateKind.UPLINK_DELAY,
)
"""What roostd runs without a `stack` line: Slurm's order, better places, and no job is stopped.

Its parts were chosen so that it is nowhere behind plain Slurm: docs/design/0013-stacks.md.
"""

_ALL = (
    DEFAULT,
    replace(DEFAULT, name="default-no-preemption"),  # the same; files may name it
    # The best of those simulated that know nothing about run times: docs/results/README.md.
    Stack(
        name="roost",
        order=OrderKind.LAS,
        placement=PlacementKind.TIGHT_GANGS,
        gate=GateKind.UPLINK_DELAY,
        patience_s=inf,
        preemption=PreemptionKind.LAS_CLOSER_MOVES,
    ),
    Stack(
        name="roost-learned",
        order=OrderKind.LEARNED_LEFT,
        placement=PlacementKind.COMMON_SHAPES,
        gate=GateKind.DELAY,
        patience_s=inf,
        preemption=PreemptionKind.LEARNED_MOVES,
    ),
    Stack(
        name="roost-makespan",
        order=OrderKind.S_RANK,
        placement=PlacementKind.COMMON_SHAPES,
        gate=GateKind.DELAY,
        patience_s=inf,
        preemption=PreemptionKind.LEASES,
    ),
    Stack(
        name="roost-no-preemption",
        order=OrderKind.LEARNED,
        placement=PlacementKind.COMMON_SHAPES,
        gate=GateKind.UPLINK_DELAY,
    ),
)

STACKS: Mapping[str, Stack] = MappingProxyType({stack.name: stack for stack in _ALL})
"""Every stack, by name."""
