import os
import socket
from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError
from roostd.ops.notify import Notifier


def bound(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listener.bind(address)
    listener.settimeout(60)
    return listener


def test_states_arrive_as_systemd_reads_them(tmp_path: Path) -> None:
    with bound(str(tmp_path / "notify")) as listener:
        notify = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        notify.ready("serving")
        notify.reloading()
        notify.watchdog()
        notify.status("all is well")
        notify.stopping()

        told = [listener.recv(4096).decode() for _ in range(5)]

    assert told[0] == "READY=1\nSTATUS=serving"
    assert told[1].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert told[2:] == ["WATCHDOG=1", "STATUS=all is well", "STOPPING=1\nSTATUS=draining"]


def test_abstract_sockets_are_reached_too() -> None:
    name = f"roost-test-{os.getpid()}"
    with bound(f"\0{name}") as listener:
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).watchdog()

        assert listener.recv(4096) == b"WATCHDOG=1"


def test_without_systemd_or_with_a_dead_one_nothing_happens(tmp_path: Path) -> None:
    Notifier({}).ready("serving")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("serving")


def test_a_relative_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="want an absolute path or @name"):
        Notifier({"NOTIFY_SOCKET": "notify"})


@pytest.mark.parametrize(
    ("environ", "watchdog_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "x"}, None),
        ({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid())}, 1.0),
    ],
)
def test_the_watchdog_s_interval(environ: dict[str, str], watchdog_s: float | None) -> None:
    assert Notifier(environ).watchdog_s == watchdog_s
