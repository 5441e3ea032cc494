"""The JSON of a job."""

import json

from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.jobs import job_document
from roostctl.testing import FakeOperator, build_job


def test_an_enum_value_of_a_newer_daemon_is_told_by_number(
    operator: FakeOperator, run: Run
) -> None:
    job = build_job("1")
    job.MergeFromString(b"\x20\x63")  # field 4, state, as 99
    operator.add_job(job)
    assert json.loads(run("job", "1", "--json").stdout)["job"]["state"] == "unknown_99"


def test_planned_and_allocated_gpus_are_apart() -> None:
    job = build_job("1", pb.JOB_STATE_PLACING, shares={"n1": [0, 1]})
    document = job_document(job)
    assert document["planned"] == [{"node": "n1", "gpu_indices": [0, 1]}]
    assert document["allocated"] == []


def test_a_deadline_that_is_due_now_is_zero_and_no_deadline_is_null() -> None:
    assert job_document(build_job("1", wait_left_s=0.0))["wait_left_s"] == 0.0
    assert job_document(build_job("1"))["wait_left_s"] is None


def test_root_is_user_zero() -> None:
    assert job_document(build_job("1", user_id=0))["user_id"] == 0


def test_a_standing_pin_without_an_expected_start_has_null_there() -> None:
    pin = pb.StandingPin(
        shares=[pb.NodeAllocation(node="n1", gpu_indices=[4])], age_s=3.0, is_preempting=True
    )
    document = job_document(build_job("1", pb.JOB_STATE_WAITING, standing=pin))
    assert document["standing"] == {
        "shares": [{"node": "n1", "gpu_indices": [4]}],
        "slurm_chooses_gpus": False,
        "age_s": 3.0,
        "start_left_s": None,
        "is_preempting": True,
    }
    assert job_document(build_job("1"))["standing"] is None
