"""access.socket_files: a killed daemon's socket goes, and one group may connect to a new one."""

import os
import socket
import stat
from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError
from roostd.rpc.access.socket_files import clear_socket, guard_socket, remove_socket


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


def test_the_socket_of_a_killed_daemon_is_removed_and_a_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "operator.sock"
    clear_socket(path, "listen.operator_socket")  # there is none yet
    make_socket(path)

    clear_socket(path, "listen.operator_socket")

    assert not path.exists()
    path.write_text("precious")
    with pytest.raises(ConfigError, match=r"listen\.operator_socket: .*: not a socket; remove it"):
        clear_socket(path, "listen.operator_socket")
    assert path.read_text() == "precious"


def test_a_socket_that_a_process_listens_on_stays(tmp_path: Path) -> None:
    path = tmp_path / "operator.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(ConfigError, match=r"operator\.sock: another process listens on it"):
            clear_socket(path, "listen.operator_socket")
    assert path.exists()


def test_a_path_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"listen\.admin_socket: .*: Not a directory"):
        clear_socket(tmp_path / "file" / "admin.sock", "listen.admin_socket")


def test_only_a_socket_is_removed_at_the_stop(tmp_path: Path) -> None:
    ours, file, folder = tmp_path / "ours", tmp_path / "file", tmp_path / "folder"
    make_socket(ours)
    file.touch()
    folder.mkdir()
    for path in (ours, file, folder, tmp_path / "none"):
        remove_socket(path)
    assert sorted(tmp_path.iterdir()) == [file, folder]


def test_owner_and_group_may_connect_and_others_may_not(tmp_path: Path) -> None:
    path = tmp_path / "operator.sock"
    make_socket(path)
    path.chmod(0o777)

    guard_socket(path, None, "listen.operator_group")

    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert path.stat().st_gid == os.getegid()


def test_a_group_that_is_none_is_named_and_the_socket_stays_closed(tmp_path: Path) -> None:
    path = tmp_path / "operator.sock"
    make_socket(path)
    path.chmod(0o600)

    with pytest.raises(ConfigError, match=r"listen\.operator_group: no-such-group: no such group"):
        guard_socket(path, "no-such-group", "listen.operator_group")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
