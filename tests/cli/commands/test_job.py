"""`roostctl job ID`."""

import json

from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.commands.job import allocated
from roostctl.testing import FakeOperator, build_job


def test_an_unknown_user_is_null_and_shown_as_a_dash_never_as_root(
    operator: FakeOperator, run: Run
) -> None:
    operator.add_job(build_job("1", user_id=None))
    assert json.loads(run("job", "1", "--json").stdout)["job"]["user_id"] is None
    assert ["User", "-"] in [line.split() for line in run("job", "1").stdout.splitlines()]


def fact(text: str, name: str) -> str:
    """One value of a listing of names and values."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"{name} ")]
    return line.removeprefix(name).strip()


def test_the_wait_left_is_shown_for_a_job_with_a_deadline_only(
    operator: FakeOperator, run: Run
) -> None:
    operator.add_job(build_job("1", pb.JOB_STATE_WAITING, wait_left_s=245.0))
    operator.add_job(build_job("2", pb.JOB_STATE_WAITING))
    assert fact(run("job", "1").stdout, "Decided within") == "4 m 05 s"
    assert "Decided within" not in run("job", "2").stdout


def test_an_allocation_as_planned_may_list_its_gpus_in_another_order() -> None:
    job = build_job("1", shares={"n1": [0, 1], "n2": [0, 1]})
    del job.allocated[:]
    job.allocated.add(node="n2", gpu_indices=[1, 0])
    job.allocated.add(node="n1", gpu_indices=[0, 1])
    assert allocated(job).plain.endswith(" (as planned)")


def test_an_allocation_of_other_gpus_is_marked() -> None:
    job = build_job("1", shares={"n1": [0, 1]})
    job.allocated[0].gpu_indices[:] = [0, 2]
    assert allocated(job).plain == "n1:0,2 (not as planned)"
    del job.planned[:]
    assert allocated(job).plain == "n1:0,2"  # without a plan there is nothing to compare


def test_of_gpus_that_slurm_chooses_the_number_on_each_node_was_planned() -> None:
    job = build_job("1", shares={"n1": [0, 1]})
    job.slurm_chooses_gpus = True
    job.allocated[0].gpu_indices[:] = [0, 2]
    assert allocated(job).plain == "n1:0,2 (as planned)"
    job.allocated[0].gpu_indices[:] = [0, 2, 3]
    assert allocated(job).plain == "n1:0,2-3 (not as planned)"


def test_the_gpus_for_which_a_job_waits_in_slurm_are_shown(
    operator: FakeOperator, run: Run
) -> None:
    pin = pb.StandingPin(shares=[pb.NodeAllocation(node="n1", gpu_indices=[4, 5])])
    operator.add_job(build_job("1", pb.JOB_STATE_WAITING, standing=pin))
    assert fact(run("job", "1").stdout, "Waits for") == "n1:4-5 (busy)"
