"""Which callers may report for a node, by certificate or host."""

from collections.abc import Mapping

import pytest
from tests.daemon.rpc.probes import hello

from roostd.rpc.access.auth import may_speak_for, node_names, why_not_answered
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
