import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import dataclasses
import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.training.environments.test_decisions import decision
from tests.training.networks.test_selector_net import drawn_net

from roost_engine.domain.errors import PolicyError
from roost_formats.models.order import BUILTIN_SELECTOR, load_onnx_selector
from roost_train.release.selector_release import write_selector
from roost_train.selector.start import read_selector

pytestmark = pytest.mark.torch


def test_a_written_selector_is_read_back_with_every_weight(tmp_path: Path) -> None:
    net = drawn_net(3)
    path = write_selector(net, [decision(4)], {}, tmp_path)
    found, sha256 = read_selector(path)
    assert found.sizes == net.sizes
    for name, wanted in net.state_dict().items():
        assert torch.allclose(found.state_dict()[name], wanted, atol=1e-6), name
    assert sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_selector_that_ships_answers_as_its_file() -> None:
    net, _ = read_selector(BUILTIN_SELECTOR)
    one = decision(7, seed=2)
    ranks = load_onnx_selector(BUILTIN_SELECTOR).ranks(one.jobs, one.cluster)
    assert np.allclose(net.ranks(one.jobs, one.cluster), np.ravel(ranks), atol=1e-5)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = write_selector(drawn_net(), [decision(4)], {}, tmp_path)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(PolicyError):
        read_selector(path)


def test_trainings_from_other_starts_are_other_trainings(tmp_path: Path) -> None:
    from tests.training.environments.small_episodes import cluster, trace
    from tests.training.selector.test_training import SHORT

    from roost_train.errors import TrainError
    from roost_train.selector.training import SelectorTraining

    short = dataclasses.replace(SHORT, iterations=0)
    start = write_selector(drawn_net(), [decision(4)], {}, tmp_path / "given")
    made = SelectorTraining(trace(), (cluster(),), short, tmp_path / "made", start=start)
    assert read_selector(made.run())[0].sizes == drawn_net().sizes
    with pytest.raises(TrainError, match="another configuration"):
        SelectorTraining(trace(), (cluster(),), short, tmp_path / "made")
