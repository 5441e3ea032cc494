"""policy_kinds: each kind that a configuration may name makes the policy of that name."""

import pytest

from roost_engine.placement.common_shapes import CommonShapes
from roost_engine.placement.tightest_shapes import TightestShapes, TightGangs
from roost_engine.placement.wide_search import WideSearch
from roost_engine.plugins.policy_kinds import (
    PreemptionNumbers,
    communication,
    ends_of,
    make_candidates,
    make_order,
    make_preemption,
)
from roost_engine.plugins.stacks import OrderKind, PlacementKind
from roost_engine.policies.heuristics import NoPreemption, PriorityOrder
from roost_engine.policies.preemption_protocols import PreemptPolicy
from roost_engine.policies.slots import name_of
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.speed.speed_predictor import SpeedPredictor
from roost_engine.prediction.speed.tier_speeds import NoTable
from roost_engine.preemption.network_preemption import NetworkPreemption, NetworkPreemptionConfig
from roost_engine.preemption.rules import LasMovesConfig, Leases, LeasesConfig
from roost_engine.testing.builders import job


@pytest.mark.parametrize("kind", OrderKind)
def test_an_order_has_the_name_of_its_kind(kind: OrderKind) -> None:
    assert name_of(make_order(kind, Predictors())) == kind.value


def test_predictions_take_part_in_reservations_under_the_learned_orders_alone() -> None:
    with_ends = [kind for kind in OrderKind if ends_of(kind) is not None]
    assert with_ends == [OrderKind.LEARNED, OrderKind.LEARNED_LEFT]
    assert isinstance(make_order(OrderKind.PRIORITY), PriorityOrder)


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (PlacementKind.WIDE, WideSearch),
        (PlacementKind.STRICT, TightestShapes),
        (PlacementKind.TIGHT_GANGS, TightGangs),
        (PlacementKind.COMMON_SHAPES, CommonShapes),
    ],
)
def test_a_placement_is_the_rule_of_its_kind(kind: PlacementKind, rule: type) -> None:
    assert isinstance(make_candidates(kind), rule)


@pytest.mark.parametrize(
    ("numbers", "rule"),
    [
        (None, NoPreemption),
        (NetworkPreemptionConfig(partitions=("main",)), NetworkPreemption),
        (LeasesConfig(), Leases),
    ],
)
def test_numbers_of_preemption_make_their_rule(
    numbers: PreemptionNumbers, rule: type[PreemptPolicy]
) -> None:
    assert isinstance(make_preemption(numbers).rule, rule)


def test_a_rule_that_stops_for_others_is_made_of_its_numbers() -> None:
    assert not make_preemption(LasMovesConfig()).rule.renews_leases


def test_communication_grows_with_the_distance() -> None:
    found = communication(SpeedPredictor(), NoTable(), job("1", gpus=8), 8)
    unknown = communication(SpeedPredictor(), NoTable(), None, 8)
    assert 0.0 == found[0] < found[1] < found[2] < 1.0
    assert unknown == found, "nothing is known of either"
    assert set(communication(SpeedPredictor(), NoTable(), None, 1)) == {0.0}
