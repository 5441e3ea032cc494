"""sd_notify(3) without libsystemd, which is not there on every node."""

import os
import socket
from collections.abc import Mapping


class Notifier:
    """Reports the probe's state to systemd. Does nothing where systemd did not start the probe.

    Args:
        environ: where NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID are looked up.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        self.watchdog_s = _watchdog_s(environ)

    def ready(self, status: str) -> None:
        """Tell systemd that the probe works."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Tell systemd that the probe reads topology and certificates again, until `ready`."""
        self._send("RELOADING=1")

    def status(self, text: str) -> None:
        """Set what `systemctl status` shows."""
        self._send(f"STATUS={text}")

    def stopping(self) -> None:
        """Tell systemd that the probe ends."""
        self._send("STOPPING=1")

    def watchdog(self) -> None:
        """Feed the watchdog. Call it in the sampling loop only, so that a hung loop is noticed."""
        if self.watchdog_s is not None:
            self._send("WATCHDOG=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            try:
                sender.sendto(message.replace("\r", " ").encode(), self._address)
            except OSError:
                return  # systemd may be restarting itself; the next message replaces this one


def _watchdog_s(environ: Mapping[str, str]) -> float | None:
    """Return the watchdog's limit in seconds; None: it does not watch this process."""
    limit_us, pid = environ.get("WATCHDOG_USEC", ""), environ.get("WATCHDOG_PID", "")
    if not limit_us.isdigit() or (pid and pid != str(os.getpid())):
        return None
    return int(limit_us) / 1e6 or None
