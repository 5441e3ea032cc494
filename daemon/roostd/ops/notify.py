"""Notifies systemd of the daemon's state: sd_notify(3) over a datagram socket, no library."""

import os
import socket
import time
from collections.abc import Mapping

from roost_engine.domain.errors import ConfigError


class Notifier:
    """Sends states to systemd's socket; does nothing where NOTIFY_SOCKET names none.

    Args:
        environ: has NOTIFY_SOCKET and WATCHDOG_USEC.

    Attributes:
        watchdog_s: seconds without a call of `watchdog` after which systemd restarts the daemon;
            None: systemd has no watchdog for it.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self.watchdog_s = _watchdog_s(environ)

    def ready(self, status: str) -> None:
        """Notify that the daemon serves, for the first time or after a reload."""
        self._send(f"READY=1\nSTATUS={status}")

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows."""
        self._send(f"STATUS={text}")

    def reloading(self) -> None:
        """Notify that a reload began, with its monotonic time (since systemd 253)."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Notify that the daemon drains."""
        self._send("STOPPING=1\nSTATUS=draining")

    def watchdog(self) -> None:
        """Notify that the decision loop runs. Only that loop may call this."""
        self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if self._address is None:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            channel.setblocking(False)
            try:
                channel.sendto(message.encode(), self._address)
            except OSError:
                return  # systemd's buffer is full or systemd restarts; the next message follows


def _address(name: str) -> str | None:
    if not name:
        return None
    if name[0] == "@":
        return "\0" + name[1:]
    if name[0] != "/":
        raise ConfigError([f"NOTIFY_SOCKET: want an absolute path or @name, got {name!r}"])
    return name


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None  # meant for another process of the unit
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / 1e6 if microseconds.isdigit() and int(microseconds) else None
