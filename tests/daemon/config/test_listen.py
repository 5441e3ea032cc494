"""The section about calls: a port that is open to other machines is guarded."""

from pathlib import Path

import pytest
from tests.daemon.config.config_file import problems, write

from roostd.config.loaded_config import load_config


@pytest.mark.parametrize(
    "address", ["0.0.0.0:7471", "10.0.0.1:7000", "'[::]:7471'", "control1:7471"]
)
def test_a_probe_port_that_is_open_to_others_needs_tls_or_insecure(
    tmp_path: Path, address: str
) -> None:
    (found,) = problems(tmp_path, f"mode: shadow\nlisten:\n  metrics: null\n  probes: {address}\n")

    plain = address.strip("'")
    assert found == (
        f"roostd.yaml:4: listen.probes: {plain} is open to other machines, where any user could"
        " speak for a node; set listen.probes_tls (docs/operations.md), or listen.insecure: true to"
        f" allow it, or 127.0.0.1:{plain.rpartition(':')[2]}"
    )


def test_insecure_may_come_from_file_environment_or_flags(tmp_path: Path) -> None:
    text = "listen: {probes: '10.0.0.1:7000'}\n"
    file = write(tmp_path, text)
    assert load_config(file, {"ROOST_LISTEN_INSECURE": "true"}).config.listen.insecure
    assert load_config(file, {}, ["listen.insecure=true"]).config.listen.insecure
    (found,) = problems(tmp_path, "", ROOST_LISTEN_PROBES="0.0.0.0:1")
    assert found.startswith("ROOST_LISTEN_PROBES: listen.probes: 0.0.0.0:1 is open")


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("{}", "127.0.0.1:7471"),
        ("{insecure: true}", "0.0.0.0:7471"),
        ("{probes_tls: {certificate: /c, key: /k, client_ca: /a}}", "0.0.0.0:7471"),
        ("{probes: '127.0.0.1:1'}", "127.0.0.1:1"),
        ("{probes: '[::1]:1'}", "[::1]:1"),
        ("{probes: 'localhost:1'}", "localhost:1"),
        ("{probes: '127.0.0.1:1', insecure: true}", "127.0.0.1:1"),
        (
            "{probes: '10.0.0.1:1', probes_tls: {certificate: /c, key: /k, client_ca: /a}}",
            "10.0.0.1:1",
        ),
    ],
)
def test_the_probe_port_is_on_loopback_unless_tls_or_insecure(
    tmp_path: Path, listen: str, address: str
) -> None:
    config = load_config(write(tmp_path, f"listen: {listen}\n"), {}).config
    assert config.listen.probe_address == address


def test_a_wrong_tls_section_is_one_problem(tmp_path: Path) -> None:
    text = "listen: {probes: '0.0.0.0:1', probes_tls: {certificate: /c, key: /k}}\n"
    assert problems(tmp_path, text) == ["roostd.yaml:1: listen.probes_tls.client_ca: missing"]
