import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import pickle
from pathlib import Path

import pytest
import torch
from tests.training.burst import SMALL, fresh_net
from tests.training.environments.small_episodes import episodes

from roost_train.errors import TrainError
from roost_train.improvement.checkpoint import read_checkpoint, write_checkpoint
from roost_train.improvement.improvement import Improvement
from roost_train.improvement.ppo import Ppo, PpoParameters
from roost_train.networks.policy_net import net_of

pytestmark = pytest.mark.torch


def test_the_net_of_a_checkpoint_is_the_trained_one(tmp_path: Path) -> None:
    net = fresh_net()
    Improvement(Ppo(net, PpoParameters()), episodes()).save(tmp_path / "last.pt")
    found = net_of(read_checkpoint(tmp_path / "last.pt"))
    assert found.sizes == SMALL
    assert torch.equal(found.skip, net.skip)


def test_damaged_checkpoints_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    write_checkpoint(path, {"net": fresh_net().state_dict()})
    assert list(tmp_path.iterdir()) == [path]
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(TrainError, match=r"last\.pt: no checkpoint of a selector"):
        read_checkpoint(path)


def test_a_full_disk_is_an_error_of_the_system_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    write_checkpoint(path, {"net": 1})
    (tmp_path / "last.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device"):
        write_checkpoint(path, {"net": torch.zeros(100_000)})
    assert read_checkpoint(path) == {"net": 1}


def test_weights_that_changed_on_the_disk_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    numbers = torch.arange(1000.0)
    write_checkpoint(path, {"net": numbers})
    content = bytearray(path.read_bytes())
    content[content.index(numbers.numpy().tobytes()) + 1500] ^= 1
    path.write_bytes(content)
    with pytest.raises(TrainError, match=r"last\.pt: no checkpoint of a selector"):
        read_checkpoint(path)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    torch.save([1.0], path)
    with pytest.raises(TrainError, match="no checkpoint of a selector: it holds a list"):
        read_checkpoint(path)
    write_checkpoint(path, {"net": {}})
    with pytest.raises(TrainError, match="of a training with other parameters"):
        Improvement(Ppo(fresh_net(), PpoParameters()), episodes()).load(path)


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "last.pt"
    path.write_bytes(pickle.dumps(Path))
    with pytest.raises(TrainError, match="no checkpoint of a selector"):
        read_checkpoint(path)
