"""roost_formats.models.interference: the shipped model, and what replaces it."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnxruntime", reason="needs onnxruntime (the daemon extra)")

from roost_engine.domain.errors import PolicyError
from roost_engine.prediction.interference.interference_model import UNKNOWN, Cases, PriorModel
from roost_engine.prediction.interference.interference_vector import (
    QUANTITIES,
    WIDTH,
    vector,
)
from roost_engine.testing.interference_cases import case_of
from roost_formats.models.interference import (
    SHIPPED_INTERFERENCE,
    load_interference,
    load_onnx_interference,
)
from roost_formats.models.score import BUILTIN_MODEL


def test_the_shipped_model_answers_a_batch_in_one_call() -> None:
    model, fault = load_interference()
    assert fault is None
    assert model.name.startswith("onnx:")
    found = model.slowdowns(Cases.empty(64))
    assert found.mean.shape == (64,)
    assert np.abs(found.mean).max() < 1e-6
    long, short = vector({"sm": 1.0, "step_time": 0.9}), vector({"sm": 0.3, "step_time": 0.1})
    beside_long, beside_short = (
        model.slowdowns(case_of(short, {"gpu": [other]})).mean[0] for other in (long, short)
    )
    assert beside_long > beside_short > 0.1


def test_without_a_file_the_prior_answers(tmp_path: Path) -> None:
    model, fault = load_interference(tmp_path / "none.onnx")
    assert isinstance(model, PriorModel)
    assert fault is not None
    assert "the prior answers instead" in fault


def test_a_model_of_another_kind_is_refused() -> None:
    with pytest.raises(PolicyError, match="kind"):
        load_onnx_interference(BUILTIN_MODEL, lambda: 0.0)


def test_a_slow_model_goes_out_of_service() -> None:
    ticks = iter(range(1000))
    model = load_onnx_interference(SHIPPED_INTERFERENCE, lambda: float(next(ticks)))
    # Loading asks it twice: for the canary, and to compare it with numpy.
    with pytest.raises(PolicyError, match="3 times in a row"):
        model.ask_runtime(case_of(UNKNOWN, {}))
    assert model.slowdowns(case_of(UNKNOWN, {})).mean[0] == 0.0  # numpy's answer


def test_numpy_and_the_runtime_agree_on_the_shipped_model() -> None:
    model = load_onnx_interference(SHIPPED_INTERFERENCE, lambda: 0.0)
    assert model.net is not None
    rng = np.random.default_rng(1)
    for count in (1, 7, 128):
        for with_gpu in (False, True):
            cases = Cases.empty(count)
            for level in ("gpu", "switch", "nic") if with_gpu else ("socket", "uplink"):
                cases.level(level)[:] = rng.random((count, WIDTH)) * 0.4
            cases.own[:] = rng.random((count, WIDTH))
            mine, theirs = model.slowdowns(cases), model.ask_runtime(cases)
            np.testing.assert_allclose(mine.mean, theirs.mean, atol=1e-5)
            np.testing.assert_allclose(mine.spread, theirs.spread, atol=1e-5)


@pytest.mark.parametrize("level", ["gpu", "switch", "socket", "nic"])
def test_what_the_shipped_model_was_not_trained_on_changes_nothing(level: str) -> None:
    model, _ = load_interference()
    rng = np.random.default_rng(3)
    more = ("memory_used", "power", "clock", *(f"{name}_variation" for name in QUANTITIES))
    for _ in range(20):
        own, other = (dict(zip(QUANTITIES, rng.random(9).tolist(), strict=True)) for _ in "ab")
        for one in (own, other):
            for name in more:
                one.pop(name, None)
        plain = model.slowdowns(case_of(vector(own), {level: [vector(other)]}))
        for one in (own, other):
            one |= zip(more, rng.random(len(more)).tolist(), strict=True)
        found = model.slowdowns(case_of(vector(own), {level: [vector(other)]}))
        assert found.mean.tolist() == plain.mean.tolist()
        assert found.spread.tolist() == plain.spread.tolist()
