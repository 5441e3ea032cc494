"""The options that commands share."""

import click
import pytest

from roostctl.options.common import Seconds, check_address

CONTEXT, PARAMETER = click.Context(click.Command("test")), click.Option(["--daemon"])


@pytest.mark.parametrize(
    "address", ["unix:/run/roost/operator.sock", "gpu-head:7000", "[::1]:7000", "10.0.0.1:65535"]
)
def test_sockets_and_host_ports_are_addresses(address: str) -> None:
    assert check_address(CONTEXT, PARAMETER, address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "gpu-head",
        ":7000",
        "gpu-head:",
        "gpu-head:http",
        "gpu-head:65536",
        "gpu-head:-1",
        "gpu-head:\N{ARABIC-INDIC DIGIT SEVEN}",  # int() reads it, gRPC does not
        "http://gpu-head:7000",
        "unix:relative",
    ],
)
def test_anything_else_is_refused(address: str) -> None:
    with pytest.raises(click.BadParameter, match="is no address"):
        check_address(CONTEXT, PARAMETER, address)


def test_seconds_are_above_zero_and_at_most_a_day() -> None:
    assert Seconds().convert("0.05", None, None) == 0.05
    assert Seconds().convert("86400", None, None) == 86400.0


@pytest.mark.parametrize("text", ["0", "-1", "86400.1", "nan", "inf", "soon"])
def test_other_seconds_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Seconds().convert(text, None, None)
