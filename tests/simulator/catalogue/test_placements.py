"""Placement rules by name: shapes, and whole simulations with each."""

import pytest
from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.testing.builders import shape
from roost_sim.catalogue.compositions import PolicyNameError, find_policy
from roost_sim.catalogue.placements import placement_part


@pytest.mark.parametrize(("name", "starts_s"), [("fifo", 10), ("fifo-strict", 100)])
def test_consolidation_takes_a_wider_shape_where_strict_waits(name: str, starts_s: float) -> None:
    half_of_each_node = arrival("1", 0, 100, 8, shape(4, 2))
    whole_node = arrival("2", 10, 50, 8, *find_policy(name).shapes(8, 8))
    outcome = simulate(cluster(2), half_of_each_node, whole_node)
    assert outcome.jobs[-1].started_s == starts_s


def test_a_rule_of_roostd_may_have_a_model_of_its_own() -> None:
    assert find_policy("fifo+consolidation:builtin.onnx+open").placement.endswith("builtin.onnx")
    assert placement_part("consolidation:a/model.onnx").model == "a/model.onnx"
    for name in ("knn:model.onnx", "nothing:model.onnx", "consolidation:"):
        with pytest.raises(PolicyNameError, match="no placement"):
            find_policy(f"fifo+{name}+open")
