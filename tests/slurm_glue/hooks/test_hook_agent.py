"""The probe's agent as a hook asks it, and answers that make no sense."""

import json
import socket
import time
from pathlib import Path

import pytest

from roost_slurm.hooks.hook_agent import Agent, AgentError, Plan
from roost_slurm.testing.fake_agent import FakeAgent

PLAN = {
    "managed": True,
    "gpu_indices": [2, 3],
    "rank_order": [3, 2],
    "gpu_uuids": ["GPU-2", "GPU-3"],
    "nics": {"2": "mlx5_0", "3": "mlx5_1"},
}


PATIENT_S = 20.0  # where the agent answers
LIMIT_S = 25.0  # 1 s is promised, of an idle machine; what hangs here hangs for 30 s and more


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\n",
        b"{}",
        b"nonsense\n",
        b"[1]\n",
        b"\xff\xfe\n",
        b"x" * 100_000,
        b'{"error": "no such job"}\n',
        b'{"managed": true, "gpu_indices": ["2"]}\n',
        b'{"managed": true, "gpu_indices": [2, 2]}\n',
        b'{"managed": true, "rank_order": [-1]}\n',
        b'{"managed": true, "rank_order": [true]}\n',
        b'{"managed": true, "nics": [1]}\n',
        b"[" * 5000 + b"\n",
    ],
)
def test_a_senseless_answer_is_an_error(tmp_path: Path, reply: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(reply)

    with (
        FakeAgent(tmp_path / "agent.sock", misbehave=answer),
        pytest.raises(AgentError),
    ):
        Agent(tmp_path / "agent.sock", 0.2).plan(1)


def test_a_nic_cannot_smuggle_a_line_into_the_task(tmp_path: Path) -> None:
    evil = {"managed": True, "nics": {"0": "a\nexport LD_PRELOAD=x", "x": "mlx5_0", "1": "mlx5_1"}}
    with FakeAgent(tmp_path / "agent.sock", {"plan": evil}):
        assert Agent(tmp_path / "agent.sock", PATIENT_S).plan(1).nics == {1: "mlx5_1"}


def test_a_dripping_answer_does_not_stretch_the_deadline(tmp_path: Path) -> None:
    def drip(connection: socket.socket) -> None:
        while True:
            connection.sendall(b" ")
            time.sleep(0.02)

    with FakeAgent(tmp_path / "agent.sock", misbehave=drip):
        start = time.monotonic()
        with pytest.raises(AgentError):
            Agent(tmp_path / "agent.sock", 0.2).plan(1)
        assert time.monotonic() - start < LIMIT_S


def test_the_plan_is_read_as_documented(tmp_path: Path) -> None:
    with FakeAgent(tmp_path / "agent.sock", {"plan": json.loads(json.dumps(PLAN))}):
        plan = Agent(tmp_path / "agent.sock", PATIENT_S).plan(77)
    assert plan == Plan(
        managed=True,
        gpu_indices=(2, 3),
        rank_order=(3, 2),
        nics={2: "mlx5_0", 3: "mlx5_1"},
    )


def test_a_job_that_roostd_left_to_slurm_has_an_empty_plan(tmp_path: Path) -> None:
    reply = {**PLAN, "managed": False}
    with FakeAgent(tmp_path / "agent.sock", {"plan": reply}):
        assert Agent(tmp_path / "agent.sock", PATIENT_S).plan(77) == Plan(managed=False)


@pytest.mark.parametrize(("reply", "expected"), [(True, True), (False, False), ("yes", False)])
def test_an_allocation_is_as_planned_only_when_the_agent_says_so(
    tmp_path: Path, reply: object, expected: bool
) -> None:
    with FakeAgent(tmp_path / "agent.sock", {"allocated": {"as_planned": reply}}) as agent:
        assert Agent(tmp_path / "agent.sock", PATIENT_S).report_allocated(77, (2, 3)) is expected
    assert agent.asked == [{"op": "allocated", "job_id": 77, "gpu_indices": [2, 3]}]


def test_an_error_that_the_agent_reports_is_passed_on_and_cut(tmp_path: Path) -> None:
    with (
        FakeAgent(tmp_path / "agent.sock", {"plan": {"error": "x" * 1000}}),
        pytest.raises(AgentError) as refused,
    ):
        Agent(tmp_path / "agent.sock", PATIENT_S).plan(77)
    assert str(refused.value) == f"{tmp_path}/agent.sock: {'x' * 200}"


def test_an_absent_agent_is_an_error_with_its_socket(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"agent\.sock: .*No such file"):
        Agent(tmp_path / "agent.sock", 0.2).plan(1)


@pytest.mark.parametrize(("index", "is_valid"), [(127, True), (128, False)])
def test_gpu_indices_have_a_bound(tmp_path: Path, index: int, is_valid: bool) -> None:
    reply = {"managed": True, "gpu_indices": [index], "nics": {str(index): "mlx5_0"}}
    with FakeAgent(tmp_path / "agent.sock", {"plan": reply}):
        agent = Agent(tmp_path / "agent.sock", PATIENT_S)
        if is_valid:
            assert agent.plan(1).nics == {127: "mlx5_0"}
        else:
            with pytest.raises(AgentError, match="gpu_indices is no list of GPU indices"):
                agent.plan(1)
