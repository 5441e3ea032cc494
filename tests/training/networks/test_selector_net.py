import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.training.environments.test_decisions import decision

from roost_engine.queue.selector_columns import JOB_COLUMNS
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.signature import ORDER
from roost_train.environments.decisions import DecisionBatch
from roost_train.export.numpy_policy import run_all
from roost_train.networks.selector_net import (
    CLUSTER_NAME,
    JOBS_NAME,
    RANK_NAME,
    SelectorCritic,
    SelectorNet,
    SelectorSizes,
    export_selector,
    masked_logs,
)
from roost_train.release.selector_release import compare_readings

pytestmark = pytest.mark.torch


def drawn_net(seed: int = 0) -> SelectorNet:
    """A selector with large weights everywhere, so that every part of it shows."""
    torch.manual_seed(seed)
    net = SelectorNet(SelectorSizes(job_channels=(2, 3), cluster_channels=(3, 2), hidden=16))
    with torch.no_grad():
        for weight in net.parameters():
            weight.copy_(torch.randn_like(weight) * 0.2)
    net.eval()
    return net


@given(st.permutations(range(6)), st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_another_order_of_the_jobs_permutes_the_logits(places: list[int], seed: int) -> None:
    net, one = drawn_net(), decision(6, seed=seed)
    straight = net.ranks(one.jobs, one.cluster)
    moved = net.ranks(np.ascontiguousarray(one.jobs[places]), one.cluster)
    assert moved == pytest.approx(straight[places], abs=1e-5)


def test_the_rank_of_a_job_does_not_depend_on_the_others() -> None:
    net, one = drawn_net(), decision(9)
    alone = net.ranks(one.jobs[:1], one.cluster)
    assert net.ranks(one.jobs, one.cluster)[0] == pytest.approx(alone[0], abs=1e-5)


def test_padding_changes_no_probability() -> None:
    net, short, long = drawn_net(), decision(3), decision(8, seed=1)
    alone, padded = DecisionBatch.of([short]), DecisionBatch.of([short, long])
    with torch.inference_mode():
        one = masked_logs(net(alone.jobs, alone.cluster), alone.mask)[0]
        both = masked_logs(net(padded.jobs, padded.cluster), padded.mask)[0]
    assert both[[0, 1, 2, -1]].tolist() == pytest.approx(one.tolist(), abs=1e-5)
    assert torch.isneginf(both[3:-1]).all()


def test_masked_actions_have_no_probability_and_no_gradient() -> None:
    ranks = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    mask = torch.tensor([[True, False, True, False]])
    logs = masked_logs(ranks, mask)
    assert logs.exp().detach()[0].tolist() == pytest.approx(
        [1 / (1 + np.e**2), 0.0, np.e**2 / (1 + np.e**2), 0.0]
    )
    logs[0, 0].backward()
    assert ranks.grad is not None
    assert ranks.grad[0, 1] == 0.0


def test_an_untrained_selector_is_nearly_the_learned_order() -> None:
    torch.manual_seed(0)
    net, one = SelectorNet(), decision(40)
    due = one.jobs[:, JOB_COLUMNS.index("ln_trusted_due")]
    ranks = net.ranks(one.jobs, one.cluster)
    assert np.corrcoef(ranks, -due)[0, 1] > 0.999


def test_a_residual_begins_as_the_learned_order_to_the_bit_in_every_reading() -> None:
    torch.manual_seed(0)
    net, one = SelectorNet.residual(), decision(40)
    due = one.jobs[:, JOB_COLUMNS.index("ln_trusted_due")]
    model = net.to_onnx()
    inputs = {JOBS_NAME: one.jobs, CLUSTER_NAME: one.cluster}
    graph = read_onnx(model, ORDER)
    readings = (
        net.ranks(one.jobs, one.cluster),
        run_all(graph, inputs)[graph.outputs[0].name].reshape(-1),
        open_session(model, ORDER).run(inputs)[RANK_NAME].reshape(-1),
    )
    for ranks in readings:
        assert (ranks == -8.0 * due).all()


def test_the_first_step_of_a_residual_moves_its_last_layer() -> None:
    torch.manual_seed(0)
    net, batch = SelectorNet.residual(), DecisionBatch.of([decision(5)])
    masked_logs(net(batch.jobs, batch.cluster), batch.mask)[0, 0].backward()
    assert net.head3.weight.grad is not None
    assert net.head3.weight.grad.abs().max() > 0.0


def test_torch_numpy_and_onnx_runtime_agree() -> None:
    net = drawn_net()
    saved = [decision(count, seed=count) for count in (1, 2, 17, 128)]
    readings = compare_readings(net, export_selector(net), saved)
    assert readings.rank_count == 148
    assert readings.worst_difference <= 1e-5


def test_each_convolution_is_exported_as_a_matrix_and_bytes_repeat() -> None:
    net = drawn_net()
    model = export_selector(net)
    assert model == export_selector(net)
    graph = read_onnx(model, ORDER)
    assert {node.operator for node in graph.nodes} == {"Add", "Gemm", "MatMul", "Relu", "Sub"}


def test_the_critic_ignores_padding() -> None:
    torch.manual_seed(0)
    critic = SelectorCritic(SelectorSizes(hidden=16)).eval()
    short, long = decision(3), decision(8, seed=1)
    alone, both = DecisionBatch.of([short]), DecisionBatch.of([short, long])
    with torch.inference_mode():
        first = critic(alone.jobs, alone.cluster, alone.present)[0]
        second = critic(both.jobs, both.cluster, both.present)[0]
    assert float(first) == pytest.approx(float(second), abs=1e-5)
