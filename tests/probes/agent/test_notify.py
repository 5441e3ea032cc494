"""Messages to systemd."""

import os
import socket
from pathlib import Path

from roost_probe.agent.notify import Notifier


def test_watchdog_is_for_this_process_only() -> None:
    mine = {"WATCHDOG_USEC": "5000000", "WATCHDOG_PID": str(os.getpid())}

    assert Notifier(mine).watchdog_s == 5.0
    assert Notifier({**mine, "WATCHDOG_PID": "1"}).watchdog_s is None
    assert Notifier({"WATCHDOG_USEC": "soon"}).watchdog_s is None
    assert Notifier({}).watchdog_s is None


def heard(systemd: socket.socket) -> list[str]:
    """The messages that have arrived so far."""
    messages = list[str]()
    systemd.setblocking(False)
    try:
        while True:
            messages.append(systemd.recv(4096).decode())
    except BlockingIOError:
        return messages


def test_each_state_is_one_message(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        notifier.ready("8 GPUs")
        notifier.reloading()
        notifier.status("no driver")
        notifier.watchdog()  # nothing: systemd has set no limit
        notifier.stopping()
        assert heard(systemd) == [
            "READY=1\nSTATUS=8 GPUs",
            "RELOADING=1",
            "STATUS=no driver",
            "STOPPING=1",
        ]


def test_an_abstract_socket_is_reached(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{tmp_path}/notify")
        Notifier({"NOTIFY_SOCKET": f"@{tmp_path}/notify"}).stopping()
        assert heard(systemd) == ["STOPPING=1"]


def test_without_systemd_or_while_it_restarts_nothing_fails(tmp_path: Path) -> None:
    Notifier({}).ready("8 GPUs")
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("8 GPUs")


def test_a_watchdog_limit_of_zero_is_none() -> None:
    assert Notifier({"WATCHDOG_USEC": "0"}).watchdog_s is None
    assert Notifier({"WATCHDOG_USEC": "1500000"}).watchdog_s == 1.5
