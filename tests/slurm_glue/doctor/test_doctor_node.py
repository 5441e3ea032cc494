"""What the doctor finds on a node."""

import time

import pytest
from tests.slurm_glue.doctor.test_doctor import FakeMachine, machine

from roost_slurm.doctor import doctor_node
from roost_slurm.doctor.doctor import Answer, Level

__all__ = ["machine"]


def test_munge_is_tried_both_ways(machine: FakeMachine) -> None:
    (found,) = doctor_node.munge(machine.looked())
    assert found.level is Level.PROBLEM
    machine.answers |= {"munge": Answer(0, "MUNGE:x", ""), "unmunge": Answer(15, "", "rewound")}
    (found,) = doctor_node.munge(machine.looked())
    assert found.text == "rewound"
    machine.answers["unmunge"] = Answer(0, "", "")
    (found,) = doctor_node.munge(machine.looked())
    assert found.level is Level.FINE


@pytest.mark.parametrize(("skew_s", "level"), [(0, Level.FINE), (-20, Level.PROBLEM)])
def test_the_clock_is_compared_with_slurmctlds(
    machine: FakeMachine, skew_s: int, level: Level
) -> None:
    machine.now_s = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(machine.now_s - skew_s))
    looked = machine.looked(f"Configuration data as of {stamp}\nSelectType = x\n")
    (found,) = doctor_node.clock(looked)
    assert found.level is level
    assert [*doctor_node.clock(machine.looked())] == []


@pytest.mark.parametrize(
    ("gres", "devices", "level", "text"),
    [
        ("gpu:g0:1,gpu:g1:1", 2, Level.FINE, "2 GPUs, as in /dev"),
        ("gpu:g0:1(S:0),gpu:g1:1(S:0-1),gpu:s0:1,gputoken:2", 2, Level.PROBLEM, "Slurm knows 2"),
        ("gpu:a100:2", 2, Level.ADVICE, "not typed by index yet"),
        ("gpu:g0:1", 2, Level.PROBLEM, "Slurm knows 1 GPUs, /dev has 2"),
        ("(null)", 2, Level.PROBLEM, "Slurm knows 0 GPUs, /dev has 2"),
    ],
)
def test_gres_is_compared_with_devices(
    machine: FakeMachine, gres: str, devices: int, level: Level, text: str
) -> None:
    for number in range(
        devices if level is not Level.PROBLEM or "1 G" in text or "0 G" in text else 3
    ):
        machine.write(f"/dev/nvidia{number}")
    machine.write("/dev/nvidiactl")
    machine.answers["scontrol"] = Answer(0, f"NodeName=vm Arch=x Gres={gres} Nothing=1\n", "")
    (found,) = doctor_node.gres(machine.looked())
    assert found.level is level
    assert text in found.text


def test_an_unknown_node_is_a_problem(machine: FakeMachine) -> None:
    machine.answers["scontrol"] = Answer(1, "", "Node vm not found")
    (found,) = doctor_node.gres(machine.looked())
    assert "Slurm does not know a node on host vm: Node vm not found" in found.text
    machine.answers["scontrol"] = Answer(0, "NodeName=n1 NodeHostName=other Gres=gpu:g0:1\n", "")
    (found,) = doctor_node.gres(machine.looked())
    assert found.text == "Slurm does not know a node on host vm"


@pytest.mark.parametrize("host", ["vm", "vm.example.com"])
def test_a_node_may_have_another_name_than_its_host(machine: FakeMachine, host: str) -> None:
    machine.write("/dev/nvidia0")
    rows = (
        "NodeName=n1 NodeAddr=x NodeHostName=vm2 Gres=gpu:g0:1,gpu:g1:1",
        f"NodeName=n2 NodeAddr=y NodeHostName={host} Gres=gpu:g0:1",
    )
    machine.answers["scontrol"] = Answer(0, "\n".join(rows), "")
    (found,) = doctor_node.gres(machine.looked())
    assert (found.level, found.text) == (Level.FINE, "1 GPUs, as in /dev")


def test_the_probe_must_run_and_answer(machine: FakeMachine) -> None:
    (found,) = doctor_node.agent(machine.looked())
    assert "ROOST_DAEMON" in found.cure
    machine.answers["systemctl is-active roost-probe"] = Answer(0, "active\n", "")
    (found,) = doctor_node.agent(machine.looked())
    assert found.level is Level.PROBLEM
    assert "agent.sock" in found.text
