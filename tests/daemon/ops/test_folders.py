"""Folders of the daemon: made with their modes, and locked against a second daemon."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError
from roostd.config.config import Config
from roostd.ops.folders import SPOOL_FOLDER, StateFolderInUse, locked, make_folders, user_name

ANOTHER_USER = 65534


def config(folder: Path) -> Config:
    paths = {"runtime_dir": str(folder / "run"), "state_dir": str(folder / "deep" / "state")}
    return Config.model_validate({"paths": paths})


def test_folders_are_made_with_their_parents_and_others_may_not_read_the_state(
    tmp_path: Path,
) -> None:
    make_folders(config(tmp_path))
    make_folders(config(tmp_path))  # those that are there stay

    assert (tmp_path / "run" / SPOOL_FOLDER).is_dir()
    assert stat.S_IMODE((tmp_path / "deep" / "state").stat().st_mode) & 0o007 == 0


@pytest.mark.parametrize(("name", "key"), [("run", "runtime_dir"), ("deep", "state_dir")])
def test_a_file_in_the_way_is_named_with_its_setting(tmp_path: Path, name: str, key: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=rf"paths\.{key}: {tmp_path / name}.*: "):
        make_folders(config(tmp_path))


@pytest.mark.parametrize("key", ["runtime_dir", "state_dir"])
def test_a_link_to_itself_is_named_with_its_setting(tmp_path: Path, key: str) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    settings = Config.model_validate({"paths": {key: str(loop)}})
    with pytest.raises(
        ConfigError, match=rf"paths\.{key}: {loop}: no folder, but a file, or a link"
    ):
        make_folders(settings)


def test_a_second_daemon_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(StateFolderInUse, match="another roostd is running on it"):
            locked(tmp_path).__enter__()
        with pytest.raises(StateFolderInUse):  # the refused attempt has released nothing
            locked(tmp_path).__enter__()
    with locked(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_files_that_roostd_made_as_root_are_named_with_a_cure_for_all_of_them(
    tmp_path: Path,
) -> None:
    """An administrator has tried roostd by hand; the folder itself is the user's already."""
    folder = tmp_path / "state"
    folder.mkdir()
    for path in (folder, *tmp_path.parents):
        if path.is_relative_to(Path(tempfile.gettempdir())):
            path.chmod(0o711)
    with locked(folder):
        pass
    os.chown(folder, ANOTHER_USER, -1)
    command = (
        "import os, sys; from pathlib import Path; from roostd.ops.folders import locked\n"
        f"os.setuid({ANOTHER_USER}); locked(Path(sys.argv[1])).__enter__()"
    )
    shown = subprocess.run(
        [sys.executable, "-c", command, folder],
        capture_output=True,
        text=True,
        check=False,
    ).stderr
    assert f"chown -R {user_name(ANOTHER_USER)} {folder}" in shown


def test_a_runtime_folder_that_is_none_is_named_by_its_setting(tmp_path: Path) -> None:
    file = tmp_path / "run"
    file.touch()
    with pytest.raises(ConfigError, match=r"paths\.runtime_dir: .*: no folder, but a file"):
        locked(file, "runtime_dir").__enter__()


def test_a_state_folder_that_is_none_is_a_fault_of_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.touch()
    with pytest.raises(ConfigError, match=r"paths\.state_dir: .*: no folder, but a file"):
        locked(file).__enter__()


def test_a_state_folder_that_its_disk_did_not_take_does_not_prevent_a_start(
    tmp_path: Path,
) -> None:
    with locked(tmp_path / "missing"):
        pass
    assert not (tmp_path / "missing").exists()
