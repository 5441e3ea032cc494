"""A machine in a container: systemd as PID 1, Slurm under its own units, Roost's as shipped."""

import os
import shlex
import time
from collections.abc import Callable
from typing import Self

from tests.e2e.containers import ContainersFailed, Engine

UNITS = ("roostd.service", "roost-probe.service")
_SHIPPED = "/opt/roost/share/roost/systemd"
_FAKE_DRIVER = "/var/lib/fake-nvml"
_POLL_S = 0.2


class SystemdMachine:
    """A container of the systemd image; use it as a context manager.

    It is controller and node at once, on a fake driver with NVLink bridges. Roost's units are
    installed, not started; drop-ins give the probe its fake driver and both a short watchdog.
    """

    def __init__(self, engine: Engine, suite: str) -> None:
        self._engine = engine
        self._image = f"roost/systemd:{suite}"
        self._container = ""
        self._network = f"roost-systemd-{suite}-{os.getpid()}"

    def __enter__(self) -> Self:
        # SYS_ADMIN lets systemd mount what it needs.
        rights = ("--cap-add", "SYS_ADMIN", "--cgroupns", "private", "--tmpfs", "/run")
        # Slurm finds no address of its own without a network.
        self._engine.run("docker", "network", "create", "--internal", self._network)
        place = ("--detach", "--hostname", "controller", "--network", self._network)
        try:
            started = self._engine.run("docker", "run", *place, *rights, self._image)
            self._container = started.strip()
            self.wait_until(self._has_booted, "systemd did not come up")
            self.run("roost-container", "systemd", "bridges8")
            self._install_units()
            self.wait_until(
                lambda: self.run("sinfo", "--noheader", "--format=%T").strip() == "idle",
                "the node did not register",
            )
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the machine."""
        if self._container:
            self._engine.run("docker", "rm", "--force", "--volumes", self._container)
        self._engine.run("docker", "network", "rm", self._network)

    def run(self, *argv: str, check: bool = True) -> str:
        """Run a command as root and return its stdout."""
        return self._engine.run("docker", "exec", self._container, *argv, check=check)

    def shell(self, script: str, check: bool = True) -> str:
        """Run a shell script as root."""
        return self.run("sh", "-c", script, check=check)

    def write(self, path: str, text: str) -> None:
        """Write a file, and its folder."""
        self.shell(f"mkdir -p $(dirname {path}) && printf %s {shlex.quote(text)} >{path}")

    def show(self, unit: str, field: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={field}", unit).strip()

    def main_status(self, unit: str) -> dict[str, str]:
        """/proc/PID/status of a unit's main process."""
        text = self.run("cat", f"/proc/{self.show(unit, 'MainPID')}/status")
        return {
            key: value.strip()
            for key, _, value in (row.partition(":") for row in text.splitlines())
        }

    def journal(self, unit: str) -> str:
        """What a unit has logged."""
        return self.run("journalctl", "--unit", unit, "--output=cat", "--no-pager")

    def wait_until(self, fact: Callable[[], bool], complaint: str, timeout_s: float = 60.0) -> None:
        """Poll until something holds.

        Raises:
            ContainersFailed: it does not, in time.
        """
        deadline = time.monotonic() + timeout_s
        while not fact():
            if time.monotonic() > deadline:
                log = self.run("journalctl", "--no-pager", "-n60", check=False)
                raise ContainersFailed(f"{complaint} after {timeout_s:g} s\n{log}")
            time.sleep(_POLL_S)

    def _has_booted(self) -> bool:
        return self.run("systemctl", "is-system-running", check=False).strip() == "running"

    def _install_units(self) -> None:
        self.shell(f"cp {_SHIPPED}/*.service /etc/systemd/system/")
        self.shell("ln -s /opt/roost/bin/roostd /opt/roost/bin/roost-probe /usr/bin/")
        options = f"--sysfs-root {_FAKE_DRIVER}/sys"
        self.write(
            "/etc/default/roost-probe",
            f"ROOST_DAEMON=127.0.0.1:7471\nROOST_PROBE_OPTIONS={options}\n",
        )
        for unit in UNITS:
            self.write(f"/etc/systemd/system/{unit}.d/test.conf", "[Service]\nWatchdogSec=3\n")
        self.write(
            "/etc/systemd/system/roost-probe.service.d/driver.conf",
            f"[Service]\nEnvironment=ROOST_FAKE_NVML_STATE={_FAKE_DRIVER}/state"
            f" LD_LIBRARY_PATH={_FAKE_DRIVER}\n"
            f"ReadWritePaths={_FAKE_DRIVER}\n",
        )
        self.run("systemctl", "daemon-reload")
