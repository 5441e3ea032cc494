"""Marks, bars and orders of `roostctl top`."""

from roost_proto.v1 import operator_pb2 as pb
from roostctl.commands.top_view import (
    Moment,
    gpu_strip,
    headline,
    job_marks,
    load_strip,
    queue,
    running,
)
from roostctl.testing import build_job, build_node, build_status

WAITING = pb.JOB_STATE_WAITING


def test_each_running_job_has_a_letter_on_its_gpus() -> None:
    jobs = [build_job("1"), build_job("2", WAITING), build_job("3")]
    marks = job_marks(jobs)
    assert {job_id: mark for job_id, (mark, _) in marks.items()} == {"1": "A", "3": "B"}
    node = build_node("n1", holders={0: "1", 1: "3", 2: "77"}, faults={3: "lost"}, gpu_count=5)
    assert gpu_strip(node, marks).plain == "AB#!."
    node.usable = False
    assert gpu_strip(node, marks).plain == "AB#!x"


def test_letters_may_run_out() -> None:
    marks = job_marks([build_job(str(number)) for number in range(60)])
    assert marks["51"][0] == "z"
    assert marks["52"][0] == "#"


def test_load_is_a_bar_a_gpu_and_unknown_where_no_probe_tells() -> None:
    node = build_node("n1", holders={0: "1"}, gpu_count=3)
    node.gpus[2].ClearField("sm_frac")
    assert load_strip(node).plain == "▇ ?"
    assert load_strip(build_node("n1", gpu_count=0)).plain == "-"


def test_the_queue_is_in_the_order_that_decides() -> None:
    jobs = [
        build_job("1", WAITING, turn=pb.Turn(position=2, of_count=2)),
        build_job("2", pb.JOB_STATE_LET_GO),
        build_job("3", WAITING, turn=pb.Turn(position=1, of_count=2)),
        build_job("4"),
        build_job("5", pb.JOB_STATE_ENDED),
        build_job("6", gpu_count=0),
    ]
    assert [job.job_id for job in queue(jobs)] == ["3", "1", "2"]
    assert [job.job_id for job in running(jobs)] == ["4"]


def test_the_headline_names_faults() -> None:
    status = build_status(slurm_fault="squeue timed out")
    status.watched_start_count, status.watched_elsewhere_count = 10, 4
    text = headline(Moment(status, [], [], "cannot reach roostd")).plain
    for wanted in ("15/32 GPUs busy", "squeue timed out", "cannot reach roostd", "alike 6/10"):
        assert wanted in text
