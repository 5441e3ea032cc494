"""A pipe or a device in the place of a file is refused at once: reading it may never end."""

import os
from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError, PolicyError
from roostd.cli import main
from roostd.config.config import Config
from roostd.config.loaded_config import load_config
from roostd.config.plain_file import NO_FILE, is_no_file
from roostd.config.policy_names import find_policy
from roostd.rpc.access.certificates import Revocations


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "pipe")
    return tmp_path / "pipe"


def test_files_folders_and_dev_null_are_read(tmp_path: Path, pipe: Path) -> None:
    (tmp_path / "file").touch()
    read = [tmp_path / "file", tmp_path, Path("/dev/null")]
    assert [is_no_file(path) for path in [*read, pipe, Path("/dev/zero")]] == [0, 0, 0, 1, 1]
    with pytest.raises(FileNotFoundError):
        is_no_file(tmp_path / "absent")


def test_a_configuration_that_is_a_pipe_or_a_device(pipe: Path) -> None:
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(ConfigError) as refused:
            load_config(path, {})
        assert str(refused.value) == f"{path}: {NO_FILE}"
    assert load_config(Path("/dev/null"), {}).config == Config()


def test_a_slurm_conf_that_is_a_pipe(
    tmp_path: Path, pipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "roostd.yaml"
    file.write_text(f"slurm:\n  conf: {pipe}\n")
    assert main(["--config", str(file)]) == 2
    assert f"{file}:2: slurm.conf: {pipe}: {NO_FILE}" in capsys.readouterr().err


def test_a_list_of_revoked_certificates_that_is_a_pipe(pipe: Path) -> None:
    with pytest.raises(ConfigError, match=NO_FILE):
        Revocations(pipe)


def test_a_manifest_that_is_a_pipe(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "mine.onnx").touch()
    os.mkfifo(folder / "mine.json")
    with pytest.raises(PolicyError, match=NO_FILE):
        find_policy("mine", tmp_path)
