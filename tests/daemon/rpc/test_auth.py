"""Who may speak for a node by certificate or host, and who may connect to a socket."""

import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.daemon.rpc.probes import hello

from roost_engine.domain.errors import ConfigError
from roostd.rpc.auth import (
    clear_socket,
    guard_socket,
    may_speak_for,
    node_names,
    remove_socket,
    why_not_answered,
)
from roostd.rpc.errors import Context
from roostd.telemetry.board import NodeReport
from roostd.telemetry.claim import Claim
from roostd.telemetry.probe_messages import read_hello


class FakeCall:
    """A call as grpc shows it to a handler; without names it came without TLS."""

    def __init__(self, *names: str, peer: str = "ipv4:10.0.0.1:4711") -> None:
        self._names, self._peer = names, peer

    def auth_context(self) -> Mapping[str, tuple[bytes, ...]]:
        if not self._names:
            return {"transport_security_type": (b"insecure",)}
        encoded = tuple(name.encode() for name in self._names)
        return {"transport_security_type": (b"ssl",), "x509_subject_alternative_name": encoded}

    def peer(self) -> str:
        return self._peer


def call(*names: str, peer: str = "ipv4:10.0.0.1:4711") -> Context:
    context: Context = FakeCall(*names, peer=peer)  # type: ignore[assignment]
    return context


def report(host: str, *, is_known: bool = True) -> NodeReport:
    return NodeReport(read_hello(hello("n1")), 0.0, claim=Claim(host=host), is_known=is_known)


def test_a_certificate_names_nodes_and_a_port_without_tls_names_none() -> None:
    assert node_names(call("n1", "n1.example.org")) == frozenset({"n1", "n1.example.org"})
    assert node_names(call()) is None


@pytest.mark.parametrize(
    ("name", "node", "allowed"),
    [
        ("n1", "n1", True),
        ("n1.example.org", "n1", True),
        ("n1", "n1.example.org", False),
        ("n11", "n1", False),
        ("n1-evil.example.org", "n1", False),
        ("example.n1", "n1", False),
    ],
)
def test_a_certificate_speaks_for_the_node_that_it_names(
    name: str, node: str, allowed: bool
) -> None:
    assert may_speak_for(call(name), node) is allowed
    refusal = None if allowed else f"the certificate does not name {node}"
    assert why_not_answered(call(name), node, None) == refusal


def test_without_tls_any_caller_speaks_for_any_node() -> None:
    assert may_speak_for(call(), "n1")


def test_without_tls_plans_go_only_to_the_host_of_the_nodes_own_probe() -> None:
    here = call(peer="ipv4:10.0.0.1:4711")
    refusal = "without mutual TLS plans for n1 are sent only to the host of its probe"

    assert why_not_answered(here, "n1", report("10.0.0.1")) is None
    assert why_not_answered(here, "n1", report("10.0.0.2")) == refusal
    assert why_not_answered(here, "n1", report("10.0.0.1", is_known=False)) == refusal
    assert why_not_answered(here, "n1", None) == refusal


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
