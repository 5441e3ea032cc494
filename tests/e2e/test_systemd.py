"""The shipped units, started for real by systemd as PID 1 of a container."""

import json
from collections.abc import Iterator

import pytest
from tests.e2e.containers import SUITES, ContainersFailed, Engine
from tests.e2e.systemd_machine import UNITS, SystemdMachine

pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]


@pytest.fixture(scope="module", params=list(SUITES))
def machine(request: pytest.FixtureRequest, engine_with_images: Engine) -> Iterator[SystemdMachine]:
    with SystemdMachine(engine_with_images, request.param) as machine:
        machine.run("systemctl", "start", *UNITS)
        yield machine


def serves(machine: SystemdMachine) -> bool:
    try:
        status = json.loads(machine.run("roostctl", "status", "--json"))
    except ContainersFailed:
        return False
    return bool(status["probe_count"] == 1)


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_nothing_wrong_with_the_unit(machine: SystemdMachine, unit: str) -> None:
    told = machine.shell(f"systemd-analyze verify /etc/systemd/system/{unit} 2>&1")
    assert told == ""


@pytest.mark.parametrize("unit", UNITS)
def test_start_returns_when_the_daemon_is_ready(machine: SystemdMachine, unit: str) -> None:
    assert machine.show(unit, "Type") == "notify"
    assert machine.show(unit, "ActiveState") == "active"
    assert machine.show(unit, "StatusText") != ""
    assert machine.show(unit, "NRestarts") == "0"


def test_daemon_and_probe_meet(machine: SystemdMachine) -> None:
    machine.wait_until(lambda: serves(machine), "the probe does not report")


def test_a_job_gets_what_roostd_chose(machine: SystemdMachine) -> None:
    machine.wait_until(lambda: serves(machine), "the probe does not report")
    options = ("--parsable", "--chdir=/tmp", "--output=/dev/null", "--gres=gpu:2")
    job = machine.run("sbatch", *options, "--wrap=sleep 600").strip()
    machine.wait_until(
        lambda: machine.run("squeue", "-h", "-j", job, "-o", "%T").strip() == "RUNNING",
        "the job does not run",
    )
    planned = json.loads(machine.run("roostctl", "job", job, "--json"))["job"]["planned"]
    assert planned == [{"node": "controller", "gpu_indices": [0, 1]}]
    assert "(IDX:0)" in (shown := machine.run("scontrol", "-d", "show", "job", job))
    assert "(IDX:1)" in shown
    machine.run("scancel", job)


@pytest.mark.parametrize("unit", UNITS)
def test_hardening_is_in_force(machine: SystemdMachine, unit: str) -> None:
    status = machine.main_status(unit)
    assert status["CapEff"] == status["CapBnd"] == "0000000000000000"
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert status["Uid"].split()[0] != "0"
    mounts = machine.run("cat", f"/proc/{machine.show(unit, 'MainPID')}/mountinfo").splitlines()
    options = {row.split()[4]: row.split()[5] for row in mounts}
    assert options["/"].startswith("ro,")


@pytest.mark.parametrize("unit", UNITS)
def test_exposure_is_low(machine: SystemdMachine, unit: str) -> None:
    # 0 is locked in, 100 is root at large; Slurm's own daemon scores 92.
    machine.run("systemd-analyze", "security", "--threshold=20", unit)


def test_reload_takes_a_new_configuration(machine: SystemdMachine) -> None:
    pid = machine.show("roostd", "MainPID")
    machine.shell("sed -i 's/ lease_s: .*/&\\n  first_lease_s: 7/' /etc/roost/roostd.yaml")
    machine.run("systemctl", "reload", "roostd")
    machine.wait_until(lambda: "config_reloaded" in machine.journal("roostd"), "no reload")
    machine.wait_until(
        lambda: machine.run("head", "-1", "/run/roost/heartbeat").endswith(" 7\n"),
        "the heartbeat keeps the old lease",
    )
    assert machine.show("roostd", "MainPID") == pid
    assert machine.show("roostd", "ActiveState") == "active"


def test_reload_of_a_wrong_configuration_keeps_the_old_one(machine: SystemdMachine) -> None:
    pid = machine.show("roostd", "MainPID")
    machine.shell("cp /etc/roost/roostd.yaml /tmp/; echo 'leese_s: 1' >>/etc/roost/roostd.yaml")
    machine.run("systemctl", "reload", "roostd", check=False)
    machine.wait_until(lambda: "config_not_reloaded" in machine.journal("roostd"), "no complaint")
    machine.shell("cp /tmp/roostd.yaml /etc/roost/")
    assert machine.show("roostd", "MainPID") == pid
    assert serves(machine)


@pytest.mark.parametrize("unit", UNITS)
def test_watchdog_restarts_a_daemon_that_hangs(machine: SystemdMachine, unit: str) -> None:
    pid = machine.show(unit, "MainPID")
    machine.run("kill", "-STOP", pid)
    machine.wait_until(
        lambda: (
            machine.show(unit, "NRestarts") == "1" and machine.show(unit, "ActiveState") == "active"
        ),
        "systemd did not restart it",
    )
    assert machine.show(unit, "MainPID") != pid
    machine.wait_until(lambda: serves(machine), "it does not serve again", timeout_s=60)


@pytest.mark.parametrize("unit", UNITS)
def test_stop_is_clean(machine: SystemdMachine, unit: str) -> None:
    machine.run("systemctl", "stop", unit)
    assert machine.show(unit, "ActiveState") == "inactive"
    assert machine.show(unit, "Result") == "success"
    machine.run("systemctl", "start", unit)
    machine.wait_until(lambda: serves(machine), "it does not serve again", timeout_s=60)
