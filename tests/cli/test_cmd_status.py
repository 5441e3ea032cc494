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
