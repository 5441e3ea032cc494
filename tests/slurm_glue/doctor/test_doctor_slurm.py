"""What the doctor finds on a controller."""

from pathlib import Path

import pytest
from tests.slurm_glue.conftest import Runtime
from tests.slurm_glue.doctor.test_doctor import FakeMachine, machine
from tests.slurm_glue.recorded import RELEASES, numbers, read

from roost_slurm.doctor import doctor_slurm
from roost_slurm.doctor.doctor import Answer, Finding, Level
from roost_slurm.text import commands

__all__ = ["machine"]
FINE = Answer(0, "", "")


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(("enforces", "worst"), [(False, Level.ADVICE), (True, Level.PROBLEM)])
def test_missing_keys_are_a_problem_only_where_jobs_are_held(
    machine: FakeMachine, release: str, enforces: bool, worst: Level
) -> None:
    looked = machine.looked(read(release, "show_config.txt"), enforces=enforces)
    found = [*doctor_slurm.settings(looked)]
    assert worst in {finding.level for finding in found}
    assert all(finding.cure for finding in found)
    (found_fine,) = doctor_slurm.settings(machine.looked(read(release, "show_config_prepared.txt")))
    assert found_fine.level is Level.FINE


@pytest.mark.parametrize(
    ("version", "told"),
    [("20.11.9", "older"), ("25.05.3", None), ("26.05.5", None), ("27.05.0-rc1", "newer")],
)
def test_a_release_that_roost_was_not_tried_on_is_named(
    machine: FakeMachine, version: str, told: str | None
) -> None:
    found = [*doctor_slurm.release(machine.looked(f"SLURM_VERSION = {version}\n"))]
    assert [one.level for one in found] == ([Level.ADVICE] if told else [])
    assert all(str(told) in one.text and one.cure for one in found)
    assert [*doctor_slurm.release(machine.looked("ClusterName = c\n"))] == []


def test_slurms_preemption_is_named(machine: FakeMachine) -> None:
    assert [*doctor_slurm.preemption(machine.looked("PreemptType = preempt/none\n"))] == []
    for version, level in (("22.05.8", Level.ADVICE), ("24.11.5", Level.FINE)):
        text = f"PreemptType = preempt/qos\nSLURM_VERSION = {version}\n"
        (found,) = doctor_slurm.preemption(machine.looked(text))
        assert found.level is level


def test_limits_on_models_as_types_are_named(machine: FakeMachine) -> None:
    machine.answers["scontrol -o show assoc_mgr"] = Answer(0, "GrpTRES=gres/gpu:h100=4(0)\n", "")
    looked = machine.looked("AccountingStorageTRES = cpu,gres/gpu,gres/gpu:a100,gres/gpu:g3\n")
    found = [*doctor_slurm.typed_limits(looked)]
    assert [finding.text.split()[0] for finding in found] == ["gres/gpu:a100", "gres/gpu:h100"]
    assert "--count-models" in found[0].cure


def test_a_daemon_that_does_not_run_or_beat_is_a_problem(machine: FakeMachine) -> None:
    (found,) = doctor_slurm.daemon(machine.looked())
    assert found.level is Level.PROBLEM
    machine.answers["systemctl is-active roostd"] = Answer(0, "active\n", "")
    (found,) = doctor_slurm.daemon(machine.looked())
    assert "no heartbeat" in found.text
    folder = machine.root / "run" / "roost"
    folder.mkdir(parents=True)
    runtime = Runtime(folder)
    runtime.beat(enforce=("main",))
    (found,) = doctor_slurm.daemon(machine.looked())  # its clock reads 1000
    assert "s old" in found.text
    import time

    machine.now_s = time.time()
    (found,) = doctor_slurm.daemon(machine.looked())
    assert (found.level, found.text) == (Level.FINE, "runs and enforces main")


def test_another_user_than_slurms_is_a_problem(machine: FakeMachine) -> None:
    machine.answers |= {"systemctl show": Answer(0, "slurm\n", ""), "roostd check-config": FINE}
    (found,) = doctor_slurm.service_user(machine.looked("SlurmUser = slurm(64030)\n"))
    assert (found.check, found.level) == ("roostd.yaml", Level.FINE)
    *units, _ = doctor_slurm.service_user(machine.looked("SlurmUser = slurmadm(9)\n"))
    assert [found.level for found in units] == [Level.PROBLEM] * 2
    assert [found.text.split()[0] for found in units] == ["roostd.service", "roost-unpin.service"]
    assert all("User=slurmadm" in found.cure for found in units)


def test_what_check_config_says_is_passed_on(machine: FakeMachine) -> None:
    machine.answers["roostd check-config"] = Answer(2, "", "a.yaml:1: mode: what\n")
    (found,) = doctor_slurm.service_user(machine.looked())
    assert (found.level, found.text) == (Level.PROBLEM, "a.yaml:1: mode: what")
    machine.answers["roostd check-config"] = Answer(0, "", "note: main is in shadow\n")
    (found,) = doctor_slurm.service_user(machine.looked())
    assert found.level is Level.ADVICE


@pytest.mark.parametrize("release", RELEASES)
def test_gpus_that_slurm_has_stranded_are_a_problem_on_busy_nodes_too(
    machine: FakeMachine, release: str
) -> None:
    nodes, queue = read(release, "show_nodes.txt"), read(release, "squeue.txt")

    def found() -> list[Finding]:
        answers = {commands.show_nodes(): nodes, commands.queue(): queue}
        answers[commands.show_jobs()] = read(release, "show_job.txt")
        machine.answers |= {" ".join(argv): Answer(0, out, "") for argv, out in answers.items()}
        return [*doctor_slurm.stranded_gpus(machine.looked())]

    assert found() == []
    # The job with GPUs 2 and 3 of n1, and 2 CPUs, was forgotten.
    gone = f"{numbers(release)['typed']}\x1f"
    queue = "".join(line for line in queue.splitlines(keepends=True) if not line.startswith(gone))
    assert found() == []  # the two answers do not fit together
    busy = nodes.partition("CPUAlloc=")[2].split()[0]
    nodes = nodes.replace(f"CPUAlloc={busy}", f"CPUAlloc={int(busy) - 2}", 1)
    (one,) = found()
    assert one.level is Level.PROBLEM
    assert "node n1 as used (2)" in one.text
    assert one.cure.startswith("scontrol reconfigure")
    machine.answers[" ".join(commands.queue())] = Answer(1, "", "Unable to contact slurmctld")
    assert [*doctor_slurm.stranded_gpus(machine.looked())] == []


HOOK = "/etc/slurm/hooks/prolog.sh"
CONFIG = f"Prolog[0] = {HOOK}\n"
SCRIPT = "#!/bin/sh\nROOST_SLURM=/opt/roost/bin/roost-slurm\n"


def test_hooks_that_are_there_are_fine(machine: FakeMachine) -> None:
    machine.write("/opt/roost/bin/roost-slurm", mode=0o755)
    machine.write(HOOK, SCRIPT, mode=0o755)
    (found,) = doctor_slurm.node_hooks(machine.looked(CONFIG))
    assert (found.level, found.text) == (Level.FINE, f"Prolog: {HOOK}")


@pytest.mark.parametrize(
    ("mode", "complaint"), [(None, "No such file"), (0o700, "not executable for all")]
)
def test_hooks_that_slurm_cannot_run_are_problems(
    machine: FakeMachine, mode: int | None, complaint: str
) -> None:
    if mode is not None:
        machine.write(HOOK, SCRIPT, mode=mode)
    (found,) = doctor_slurm.node_hooks(machine.looked(CONFIG))
    assert found.level is Level.PROBLEM
    assert complaint in found.text


def test_a_path_of_another_machine_and_a_closed_folder_are_problems(machine: FakeMachine) -> None:
    machine.write(HOOK, SCRIPT, mode=0o755)
    (found,) = doctor_slurm.node_hooks(machine.looked(CONFIG))
    assert "calls /opt/roost/bin/roost-slurm, which is not on this machine" in found.text
    machine.write("/opt/roost/bin/roost-slurm", mode=0o755)
    (machine.root / "etc/slurm/hooks").chmod(0o700)
    found, *_ = doctor_slurm.node_hooks(machine.looked(CONFIG))
    assert "/etc/slurm/hooks is closed to users" in found.text


def test_no_hooks_at_all_is_advice_in_shadow(machine: FakeMachine) -> None:
    for enforces, level in ((False, Level.ADVICE), (True, Level.PROBLEM)):
        looked = machine.looked("Epilog = /bin/true\n", enforces=enforces)
        (found,) = doctor_slurm.controller_hooks(looked)
        assert found.level is level


def test_each_machine_is_asked_for_the_hooks_that_it_runs(machine: FakeMachine) -> None:
    """A node may be without the controller's: slurmd does not run them."""
    config = f"EpilogSlurmctld = /etc/slurm/hooks/epilog-slurmctld.sh\n{CONFIG}"
    (found,) = doctor_slurm.node_hooks(machine.looked(config))
    assert found.text.startswith("Prolog: ")
    assert found.cure == "copy the controller's, or take Prolog out of slurm.conf"
    (found,) = doctor_slurm.controller_hooks(machine.looked(config))
    assert found.text.startswith("EpilogSlurmctld: ")
    assert found.cure.startswith("roost-slurm install --files, or")  # no other machine has it


def test_the_timer_and_certificates(machine: FakeMachine) -> None:
    (found,) = doctor_slurm.unpin_timer(machine.looked())
    assert "enable --now roost-unpin.timer" in found.cure
    assert [*doctor_slurm.certificates(machine.looked())] == []
    path = machine.write("/etc/roost/roostd.pem")
    (found,) = doctor_slurm.certificates(machine.looked())
    assert found.level is Level.PROBLEM
    machine.answers[f"openssl x509 -noout -checkend {30 * 86400} -in {path}"] = FINE
    (found,) = doctor_slurm.certificates(machine.looked())
    assert found.level is Level.FINE
    assert isinstance(path, Path)
