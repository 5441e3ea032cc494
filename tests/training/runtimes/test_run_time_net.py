import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from roost_engine.prediction.run_time.run_time_features import COLUMNS
from roost_engine.prediction.run_time.run_times import BAND_COUNT, band_of
from roost_formats.models.loader import open_session
from roost_formats.models.onnx_file import read_onnx
from roost_formats.models.run_times import INPUT_NAME, OUTPUT_NAME
from roost_formats.models.signature import RUN_TIMES
from roost_train.runtimes.run_time_net import (
    RunTimeHyperParameters,
    RunTimeNet,
    export_run_times,
    target_fracs,
    train_run_times,
)

pytestmark = pytest.mark.torch

SHORT = RunTimeHyperParameters(hidden=8, batch_jobs=64)


def drawn_features(count: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    features = rng.normal(0.0, 3.0, (count, len(COLUMNS))).astype(np.float32)
    shares = rng.random((count, BAND_COUNT)) + 0.01
    features[:, :BAND_COUNT] = np.log(shares / shares.sum(axis=1, keepdims=True))
    return features


def untrained() -> RunTimeNet:
    ones = np.ones(len(COLUMNS), np.float32)
    return RunTimeNet(0 * ones, ones, SHORT)


def test_an_untrained_net_answers_as_the_history_does() -> None:
    features = drawn_features(5)
    shares = np.exp(features[:, :BAND_COUNT])
    assert untrained().ending_fracs(features) == pytest.approx(shares, abs=1e-6)


def test_targets_are_spread_as_the_history_spreads_ends() -> None:
    targets = target_fracs(np.array([700.0, 1.0, 1e9]))
    assert targets.sum(axis=1) == pytest.approx(1.0)
    own = band_of(700.0)
    assert targets[0, own - 2 : own + 3] == pytest.approx([0.05, 0.15, 0.6, 0.15, 0.05])
    assert targets[1, 0] == pytest.approx(0.8)
    assert targets[2, -1] == pytest.approx(0.8)


def test_a_net_learns_what_the_history_does_not_know() -> None:
    features = drawn_features(600)
    column = COLUMNS.index("gpus")
    run_s = np.where(features[:, column] > 0, 20_000.0, 30.0)
    net = train_run_times(features, run_s, SHORT, epochs=20)
    answered = net.ending_fracs(features)
    right = answered[np.arange(600), [band_of(one_s) for one_s in run_s]]
    before = untrained().ending_fracs(features)[np.arange(600), [band_of(one) for one in run_s]]
    assert right.mean() > 5 * before.mean()


def test_one_seed_gives_one_net() -> None:
    features, run_s = drawn_features(100), np.full(100, 500.0)
    seen = list[int]()
    one = train_run_times(features, run_s, SHORT, 2, lambda net: seen.append(1))
    two = train_run_times(features, run_s, SHORT, 2)
    assert len(seen) == 2
    assert export_run_times(one) == export_run_times(two)


def test_the_exported_file_passes_the_loader_and_computes_the_same() -> None:
    features = drawn_features(300)
    features[:, -1] = 7.0  # a column that never changes must not be divided by nothing
    net = train_run_times(features, np.linspace(1.0, 1e6, 300), SHORT, epochs=3)
    model = export_run_times(net)
    assert {node.operator for node in read_onnx(model, RUN_TIMES).nodes} == {
        "MatMul", "Gemm", "Relu", "Add", "Softmax",
    }  # fmt: skip
    answered = open_session(model, RUN_TIMES).run({INPUT_NAME: features})[OUTPUT_NAME]
    assert answered == pytest.approx(net.ending_fracs(features), abs=1e-5)
    assert torch.isfinite(net(torch.from_numpy(features))).all()
