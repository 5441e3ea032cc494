"""`roostctl status`."""

import json

from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.testing import FakeOperator


def test_status_check_exits_1_on_a_fault_and_still_prints(operator: FakeOperator, run: Run) -> None:
    assert run("status", "--check").exit_code == 0
    operator.status.slurm_fault = "squeue gave no answer in 10 s"
    result = run("status", "--check")
    assert result.exit_code == 1
    assert "squeue gave no answer in 10 s" in result.stdout
    assert run("status").exit_code == 0


def test_the_longest_wait_beyond_plain_slurm_s_is_shown(operator: FakeOperator, run: Run) -> None:
    def line() -> str:
        lines = run("status").stdout.splitlines()
        return next((line for line in lines if line.startswith("Extra wait")), "")

    assert not line()  # Slurm is not asked
    operator.status.longest_beyond_slurm_s = 0.0
    assert line().endswith("none")
    operator.status.longest_beyond_slurm_s = 34.0
    operator.status.longest_beyond_slurm_job_id = "17"
    assert line().endswith("up to 34 s longer than under plain Slurm, job 17")
    assert run("status", "--check").exit_code == 0
    operator.status.beyond_cap_count = 1
    assert line().endswith("; 1 job beyond the cap now")
    assert run("status", "--check").exit_code == 1
    shown = json.loads(run("status", "--json").stdout)
    assert shown["longest_beyond_slurm_s"] == 34.0
    assert shown["longest_beyond_slurm_job_id"] == "17"
    assert shown["beyond_cap_count"] == 1


def test_the_shares_of_users_are_named_where_the_order_keeps_them(
    operator: FakeOperator, run: Run
) -> None:
    def line() -> str:
        lines = run("status").stdout.splitlines()
        return next((line for line in lines if line.startswith("Shares")), "")

    assert not line()
    assert json.loads(run("status", "--json").stdout)["share_user_count"] is None
    operator.status.share_user_count = 0
    assert line().endswith("equal: no slurmdbd")
    operator.status.share_user_count = 12
    assert line().endswith("Slurm's, of 12 users")
    assert json.loads(run("status", "--json").stdout)["share_user_count"] == 12


def test_a_faulty_model_fails_the_check_too(operator: FakeOperator, run: Run) -> None:
    operator.status.policy_fault = "it answered NaN"
    result = run("status", "--check", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["policy_fault"] == "it answered NaN"
    assert "the heuristic answers: it answered NaN" in run("status").stdout


def test_the_default_mode_comes_before_the_partitions(operator: FakeOperator, run: Run) -> None:
    operator.status.partitions.add(partition="debug", mode=pb.MODE_OFF)
    assert "shadow (debug: off, main: enforce)" in run("status").stdout
    del operator.status.partitions[:]
    assert ["Mode", "shadow"] in [line.split() for line in run("status").stdout.splitlines()]


def _score(run: Run) -> str:
    lines = run("status").stdout.splitlines()
    assert not [line for line in lines if line.startswith("Policy")]
    (found,) = (line for line in lines if line.startswith("Score"))
    return found


def test_the_score_is_named_once_as_configured(operator: FakeOperator, run: Run) -> None:
    operator.status.policy_model, operator.status.policy_sha256 = "graph", "0123456789abcdef"
    del operator.status.slots[:]
    operator.status.slots.add(slot="score", policy="onnx:0123456789ab", heuristic="heuristic")
    assert _score(run).endswith("graph (sha256 0123456789ab)")
    operator.status.slots[0].policy = "onnx:0123456789ab+onnx:ba9876543210"
    assert _score(run).endswith("with a canary: onnx:0123456789ab+onnx:ba9876543210")


def test_without_a_model_the_heuristic_scores(operator: FakeOperator, run: Run) -> None:
    operator.status.policy_model, operator.status.policy_sha256 = "heuristic", ""
    del operator.status.slots[:]
    operator.status.slots.add(slot="score", policy="heuristic", heuristic="heuristic")
    assert _score(run).endswith("none: the heuristic")
    operator.status.policy_fault = "no file /m.onnx"
    assert "; the heuristic answers: no file /m.onnx" in _score(run)
