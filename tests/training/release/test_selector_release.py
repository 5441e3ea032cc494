import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.environments.test_decisions import decision
from tests.training.networks.test_selector_net import drawn_net

from roost_engine.domain.errors import PolicyError
from roost_engine.queue.selector_columns import SCHEMA_VERSION
from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.order import load_onnx_selector
from roost_formats.models.signature import ORDER
from roost_train.errors import TrainError
from roost_train.release.selector_release import compare_readings, write_selector

pytestmark = pytest.mark.torch


def test_a_release_loads_and_answers_as_torch_does(tmp_path: Path) -> None:
    net, saved = drawn_net(), [decision(20, seed=place) for place in range(3)]
    path = write_selector(net, saved, {"data": "made up"}, tmp_path / "new")
    loaded = load_onnx_selector(path, lambda: 0.0)
    for one in saved:
        answer = loaded.ranks(one.jobs, one.cluster)
        assert answer == pytest.approx(net.ranks(one.jobs, one.cluster), abs=1e-5)
    manifest = Manifest.from_json(manifest_path(path).read_text(encoding="utf-8"), ORDER)
    assert manifest.card["data"] == "made up"
    assert manifest.card["features_version"] == SCHEMA_VERSION
    assert path.stat().st_size < 1_000_000


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = write_selector(drawn_net(), [decision(5)], {}, tmp_path)
    path.write_bytes(path.read_bytes()[:-3] + b"abc")
    with pytest.raises(PolicyError):
        load_onnx_selector(path, lambda: 0.0)


def test_without_decisions_there_is_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="no decision"):
        write_selector(drawn_net(), [], {}, tmp_path)


def test_a_file_that_computes_something_else_is_found() -> None:
    net, other = drawn_net(0), drawn_net(1)
    from roost_train.networks.selector_net import export_selector

    readings = compare_readings(net, export_selector(other), [decision(5)])
    assert readings.worst_difference > 1e-3
    assert np.isfinite(readings.worst_difference)
    assert torch.is_grad_enabled()
