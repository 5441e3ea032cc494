"""Tables of other clusters, in the columns as they are published, and headers that lack some."""

from pathlib import Path

import pytest

from roost_sim.errors import TraceError
from roost_sim.traces.csv_columns import find_columns
from roost_sim.traces.formats import load_trace
from roost_sim.traces.trace import Status


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    return path


ACME = """\
job_id,user,node_num,gpu_num,type,state,submit_time,start_time,end_time,duration,queue
a,u1,2,16,Pretrain,COMPLETED,2023-05-17 12:00:00+08:00,x,y,4140.0,11.0
b,u1,1,0,Other,CANCELLED,2023-05-17 12:00:30+08:00,,2023-05-17 13:10:08+08:00,,
c,u2,1,1,Other,CANCELLED,2023-05-17 12:00:40+08:00,,2023-05-17 13:10:08+08:00,,
d,u2,1,8,Other,FAILED,2023-05-17 12:01:00+08:00,x,y,540.0,11.0
"""
PODS = """\
name,num_gpu,gpu_milli,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,1,1000,LS,Running,0,12537496,10
p1,1,460,LS,Succeeded,427061,427161,427061
p2,8,1000,BE,Failed,427062,427162,427092
p3,1,1000,BE,Pending,427063,427163,
p4,0,0,LS,Running,427064,427164,427064
p5,1,1000,LS,Running,427065,,427065
"""
TASKS = """\
job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_gpu,gpu_type
j0,worker,4.0,Terminated,5000.0,6000.0,600.0,50.0,V100
j1,ps,2.0,Terminated,5001.0,6000.0,600.0,,V100
j2,tensorflow,1.0,Failed,5010.0,5020.0,600.0,25.0,MISC
"""


def test_a_row_without_a_run_in_acmes_tables_is_skipped(tmp_path: Path) -> None:
    loaded = load_trace(write(tmp_path, ACME), strict=True)
    assert loaded.trace.submit_s.tolist() == [0.0, 60.0]
    assert loaded.trace.epoch_of_zero_s == 1_684_296_000.0
    assert loaded.report.skipped == {"asks for no GPU": 1, "was never started": 1}


def test_pods_run_from_their_start_to_their_end(tmp_path: Path) -> None:
    loaded = load_trace(write(tmp_path, PODS))
    trace = loaded.trace
    assert trace.duration_s.tolist() == [12_537_486.0, 100.0, 70.0]
    assert trace.submit_s.tolist() == [0.0, 427_061.0, 427_062.0]
    assert trace.gpu_count.tolist() == [1, 1, 8]
    assert trace.status.tolist() == [Status.UNKNOWN, Status.COMPLETED, Status.FAILED]
    assert trace.epoch_of_zero_s is None
    assert loaded.report.ignored == {"a part of a GPU, which becomes a whole one": 1}
    assert loaded.report.skipped.total() == 3
    with pytest.raises(TraceError, match=r"jobs\.csv:3: a part of a GPU"):
        load_trace(tmp_path / "jobs.csv", strict=True)


def test_instances_with_parts_of_gpus_are_summed(tmp_path: Path) -> None:
    loaded = load_trace(write(tmp_path, TASKS))
    assert loaded.trace.gpu_count.tolist() == [2, 1]
    assert loaded.trace.submit_s.tolist() == [0.0, 10.0]
    assert loaded.report.skipped == {"asks for no GPU": 1}
    assert loaded.report.ignored["no submission; the start stands for it"] == 2


def test_hundredths_that_make_whole_gpus_are_not_rounded_up(tmp_path: Path) -> None:
    rows = "submit_s,duration_s,plan_gpu,inst_num\n0,9,7,100\n1,9,29,100\n2,9,14,50\n3,9,1,101\n"
    loaded = load_trace(write(tmp_path, rows))
    assert loaded.trace.gpu_count.tolist() == [7, 29, 7, 2]
    assert loaded.report.ignored == {"a part of a GPU, which becomes a whole one": 1}


@pytest.mark.parametrize(
    ("rows", "epoch_s"),
    [
        ("submit_s,start_time,duration_s,num_gpus\n5,2020-04-01 00:10:00,9,1\n", None),
        ("start_time,end_time,num_gpus\n2020-04-01 00:10:00,2020-04-01 00:11:00,1\n", 1585699800),
        ("submit_time,duration_s,num_gpus\nnan,9,1\n7,9,1\n", None),
        ("submit_time,duration_s,num_gpus\n1600000000,9,1\n", 1600000000),
    ],
)
def test_only_a_submission_gives_the_wall_clock(
    tmp_path: Path, rows: str, epoch_s: float | None
) -> None:
    assert load_trace(write(tmp_path, rows)).trace.epoch_of_zero_s == epoch_s


def test_instances_of_jobs_that_were_submitted_at_a_number_of_seconds(tmp_path: Path) -> None:
    header = "job_name,organization,gpu_request,worker_num,submit_time,duration,job_type\n"
    trace = load_trace(write(tmp_path, header + "1,13,8,4,5,60,HP\n2,57,1,1,9,7,Spot\n")).trace
    assert trace.gpu_count.tolist() == [32, 1]
    assert trace.submit_s.tolist() == [0.0, 4.0]
    assert trace.account.names == ("13", "57")


def test_an_end_before_its_start_is_a_bad_row(tmp_path: Path) -> None:
    rows = "start_s,end_s,gpus\n5,1,1\n5,9,1\nsoon,9,1\n"
    report = load_trace(write(tmp_path, rows)).report
    assert (report.job_count, report.bad_count) == (1, 2)


def test_roosts_own_name_comes_before_a_public_one() -> None:
    columns = find_columns(["start_time", "submit_time", "submit_s", "GPU_num", "duration"], "f")
    assert (columns.submit, columns.submit_time, columns.gpus) == (2, 1, 3)
    assert columns.has_whole_gpus
