"""The JSON of the daemon's state."""

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.status import status_document
from roostctl.testing import build_status


def test_partitions_come_by_name_with_their_mode() -> None:
    status = build_status()
    status.partitions.add(partition="debug", mode=pb.MODE_OFF)
    assert status_document(status)["partitions"] == [
        {"partition": "debug", "mode": "off"},
        {"partition": "main", "mode": "enforce"},
    ]


def test_no_fault_is_null_and_a_fault_is_its_text() -> None:
    healthy, faulty = build_status(), build_status("squeue timed out", "it answered NaN")
    assert (status_document(healthy)["slurm_fault"], status_document(healthy)["policy_fault"]) == (
        (None, None)
    )
    assert status_document(faulty)["slurm_fault"] == "squeue timed out"
    assert status_document(faulty)["policy_fault"] == "it answered NaN"


def test_every_count_keeps_its_own_key() -> None:
    document = status_document(build_status())
    counts = {key: value for key, value in document.items() if key.endswith("_count")}
    assert counts == {
        "node_count": 4,
        "probe_count": 3,
        "gpu_count": 32,
        "gpu_free_count": 17,
        "waiting_job_count": 2,
        "running_job_count": 6,
        "decision_count": 1234,
        "fallback_count": 5,
        "refused_count": 1,
        "beyond_cap_count": 0,
        "share_user_count": None,
        "watched_start_count": 0,
        "watched_elsewhere_count": 0,
        "blocked_job_count": 0,
    }
    assert document["left_jobs"] == [
        {"reason": "asks for whole nodes", "job_count": 12},
        {"reason": "partition debug is off", "job_count": 1},
    ]
    assert document["uptime_s"] == 93784.0
