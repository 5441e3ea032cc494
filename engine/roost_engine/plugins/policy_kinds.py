"""Policies by the kinds and numbers that a configuration gives: a function for each step."""

from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TypeAlias, assert_never

from roost_engine.domain.model import JobSpec
from roost_engine.domain.tier import Tier
from roost_engine.placement.common_shapes import CommonShapes
from roost_engine.placement.tightest_shapes import TightestShapes, TightGangs
from roost_engine.placement.wide_search import WideSearch
from roost_engine.plugins.stacks import OrderKind, PlacementKind
from roost_engine.policies.heuristics import NoPreemption, PriorityOrder, ShapeByShape
from roost_engine.policies.preemption_protocols import PreemptPolicy
from roost_engine.policies.protocols import (
    CandidatePolicy,
    OrderPolicy,
)
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.run_time.foreseen_ends import EndsConfig
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roost_engine.prediction.speed.tier_speeds import SpeedTable
from roost_engine.preemption.network_preemption import (
    NetworkPreemption,
    NetworkPreemptionConfig,
    PreemptionState,
)
from roost_engine.preemption.rules import (
    KnownLeftMovesConfig,
    LasMovesConfig,
    LearnedMovesConfig,
    LeasesConfig,
    known_left_moves,
    las_moves,
    learned_moves,
    leases,
)
from roost_engine.queue.learned_order import LearnedOrder, LearnedOrderConfig
from roost_engine.queue.orders import OrderByValue, SpeedAchieved, attained_service
from roost_engine.scoring.graph_jobs import Communication

PreemptionNumbers: TypeAlias = (
    NetworkPreemptionConfig
    | LasMovesConfig
    | LearnedMovesConfig
    | KnownLeftMovesConfig
    | LeasesConfig
    | None
)


def communication(
    speed: SpeedPredictor, typical: SpeedTable, job: JobSpec | None, gpu_count: int
) -> Communication:
    """Return which part of a job's step is communication, by its expected speed on each tier.

    Args:
        speed: predicts it.
        typical: the same of jobs of which nothing else is known.
        job: the job; None: nothing is known of it.
        gpu_count: of the job.
    """
    speeds = typical.typical(gpu_count) if job is None else speed.estimate(job).speeds
    return Communication(*(1.0 - speeds.at(tier) for tier in Tier))


def make_order(
    kind: OrderKind,
    predictors: Predictors | None = None,
    learned: LearnedOrderConfig | None = None,
    longest_wait_s: float = inf,
) -> OrderPolicy:
    """Make an order.

    Args:
        kind: which.
        predictors: `s-rank` asks them for speeds that are not reported, `learned` for run times.
        learned: the numbers of `learned`.
        longest_wait_s: see policies.BoundedOrder; of the orders without ageing.
    """
    by_value = partial(OrderByValue, name=kind.value, longest_wait_s=longest_wait_s)
    match kind:
        case OrderKind.PRIORITY:
            return PriorityOrder()
        case OrderKind.LAS:
            return by_value(attained_service)
        case OrderKind.S_RANK:
            speed = None if predictors is None else predictors.speed
            return by_value(SpeedAchieved(speed).value)
        case OrderKind.LEARNED_LEFT:
            left = (predictors or Predictors()).service_left
            return by_value(left.value, peek=left.peek, is_trusted=left.is_trusted)
        case OrderKind.KNOWN_LEFT:
            left = (predictors or Predictors()).known_left
            return by_value(left.value, peek=left.peek)
        case OrderKind.LEARNED:
            return LearnedOrder(learned or LearnedOrderConfig(), predictors or Predictors())
        case _:
            assert_never(kind)


def ends_of(order: OrderKind) -> EndsConfig | None:
    """Return how predictions take part in reservations where an order decides."""
    return EndsConfig() if order in (OrderKind.LEARNED, OrderKind.LEARNED_LEFT) else None


def make_candidates(kind: PlacementKind, any_gpus: bool = False) -> CandidatePolicy:
    """Make the rule that proposes placements; for `any_gpus` see Plugins."""
    match kind:
        case PlacementKind.CONSOLIDATION:
            return ShapeByShape(any_gpus)
        case PlacementKind.WIDE:
            return WideSearch(any_gpus)
        case PlacementKind.STRICT:
            return TightestShapes(any_gpus)
        case PlacementKind.COMMON_SHAPES:
            return CommonShapes(any_gpus)
        case PlacementKind.TIGHT_GANGS:
            return TightGangs(any_gpus)
        case _:
            assert_never(kind)


@dataclass(frozen=True, slots=True)
class MadePreemption:
    """A preemption rule.

    Attributes:
        rule: decides.
        learned: the rule, if its knowledge outlives the engine.
    """

    rule: PreemptPolicy
    learned: NetworkPreemption | None = None


def make_preemption(
    numbers: PreemptionNumbers,
    predictors: Predictors | None = None,
    known: PreemptionState | None = None,
) -> MadePreemption:
    """Make a preemption rule.

    Args:
        numbers: of the rule; None: no job is stopped.
        predictors: `network` asks them for speeds that are not reported, `learned-moves` for what
            is left of jobs.
        known: what a rule that learns knows from the start.
    """
    match numbers:
        case None:
            return MadePreemption(NoPreemption())
        case NetworkPreemptionConfig():
            rule = NetworkPreemption(numbers, predictors.speed if predictors else None)
            if known is not None:
                rule.restore(known)
            return MadePreemption(rule, rule)
        case LasMovesConfig():
            return MadePreemption(las_moves(numbers))
        case LearnedMovesConfig():
            left = (predictors or Predictors()).service_left
            return MadePreemption(learned_moves(numbers, left))
        case KnownLeftMovesConfig():
            known_left = (predictors or Predictors()).known_left
            return MadePreemption(known_left_moves(numbers, known_left))
        case LeasesConfig():
            return MadePreemption(leases(numbers))
        case _:
            assert_never(numbers)
