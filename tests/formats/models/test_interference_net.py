"""roost_formats.models.interference_net: the model of neighbours in numpy."""

from dataclasses import replace

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_engine.prediction.interference.interference_model import Cases
from roost_formats.models.interference import SHIPPED_INTERFERENCE
from roost_formats.models.interference_net import InterferenceNet, net_of
from roost_formats.models.onnx_file import OnnxGraph, read_onnx
from roost_formats.models.signature import INTERFERENCE


def shipped() -> OnnxGraph:
    return read_onnx(SHIPPED_INTERFERENCE.read_bytes(), INTERFERENCE)


def test_a_graph_of_another_form_is_not_read() -> None:
    graph = shipped()
    assert net_of(graph) is not None
    other = replace(graph.nodes[0], inputs=("own", "costs"))
    assert net_of(replace(graph, nodes=(other, *graph.nodes[1:]))) is None
    assert net_of(replace(graph, nodes=graph.nodes[:-1])) is None


def test_a_missing_weight_is_named() -> None:
    weights = {name: each for name, each in shipped().weights.items() if name != "pressure"}
    with pytest.raises(PolicyError, match="no weight 'pressure'"):
        InterferenceNet(weights)


def test_a_case_has_the_same_answer_alone_and_in_a_batch() -> None:
    net, rng = InterferenceNet(shipped().weights), np.random.default_rng(0)
    cases = Cases.empty(33)
    for rows in (cases.own, cases.level("switch"), cases.level("nic"), cases.level("gpu")):
        rows[:] = rng.random(rows.shape)
    whole = net.slowdowns(cases)
    for at in range(33):
        alone = net.slowdowns(Cases(*(rows[at : at + 1] for rows in cases)))
        assert alone.mean[0] == pytest.approx(whole.mean[at], rel=1e-6)
        assert alone.spread[0] == pytest.approx(whole.spread[at], rel=1e-6)


def test_means_alone_are_those_of_slowdowns() -> None:
    net, rng = InterferenceNet(shipped().weights), np.random.default_rng(0)
    for levels in (("switch", "nic"), ("gpu", "socket")):
        cases = Cases.empty(33)
        for rows in (cases.own, *map(cases.level, levels)):
            rows[:] = rng.random(rows.shape)
        assert net.means(cases).tolist() == net.slowdowns(cases).mean.tolist()
