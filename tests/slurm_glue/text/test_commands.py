import pytest

from roost_slurm.text import commands
from roost_slurm.text.stamp import Stamp, advice, parse_stamp


def test_pin_moves_a_request_a_node_to_the_job() -> None:
    assert commands.pin(
        "7_3",
        nodes=("n2", "n1"),
        gpu_indices=(6, 7),
        writes_per_job=True,
        prefix="gres:",
    ) == (
        "scontrol",
        "update",
        "jobid=7_3",
        "TresPerTask=",
        "TresPerSocket=",
        "TresPerJob=gres:gpu:g6:2,gres:gpu:g7:2",
        "TresPerNode=",
        "ReqNodeList=n[1-2]",
        "StartTime=now",
    )


def test_pin_moves_any_other_request_to_the_node() -> None:
    argv = commands.pin(
        "7",
        nodes=("n1", "n2"),
        gpu_indices=(0,),
        writes_per_job=False,
        has_cpus_per_gpu=True,
        kept_per_task="cpu=3",
        node_count_changes=True,
        kept_task_count=4,
        admin_comment="roost:lease was=TresPerJob:gres/gpu:2",
        prefix="gres/",
    )
    assert argv == (
        "scontrol",
        "update",
        "jobid=7",
        "CpusPerTres=",
        "TresPerTask=cpu=3",
        "TresPerSocket=",
        "TresPerJob=",
        "TresPerNode=gres/gpu:g0:1",
        "ReqNodeList=n[1-2]",
        "NumNodes=2-2",
        "NumTasks=4",
        "AdminComment=roost:lease was=TresPerJob:gres/gpu:2",
        "StartTime=now",
    )


@pytest.mark.parametrize(
    ("writes_per_job", "request_text"),
    [
        (True, "TresPerJob=gres:gpu:g6:2,gres:gpu:g7:2,gres:h100:4"),
        (False, "TresPerNode=gres:gpu:g6:1,gres:gpu:g7:1,gres:h100:2"),
    ],
)
def test_pin_keeps_the_tokens(writes_per_job: bool, request_text: str) -> None:
    argv = commands.pin(
        "7",
        nodes=("n1", "n2"),
        gpu_indices=(6, 7),
        writes_per_job=writes_per_job,
        tokens=("h100",),
        prefix="gres:",
    )
    assert request_text in argv


def test_questions_about_a_sites_rules() -> None:
    assert commands.show_assoc_mgr()[-1] == "flags=assoc,qos"
    assert commands.show_partitions() == ("scontrol", "-a", "-o", "show", "partitions")
    assert commands.show_qos()[0] == "sacctmgr"
    assert commands.show_qos()[-1] == (
        "format=Name,Preempt,PreemptMode,Flags,LimitFactor,PreemptExemptTime"
    )


def test_unpin_puts_the_request_back_where_the_release_can() -> None:
    assert commands.unpin(
        "7", request=[("TresPerJob", "gres/gpu:2")], required_nodes="n4", lease_s=60
    ) == (
        "scontrol",
        "update",
        "jobid=7",
        "TresPerTask=",
        "TresPerSocket=",
        "TresPerNode=",
        "TresPerJob=gres/gpu:2",
        "ReqNodeList=n4",
        "StartTime=now+60",
    )
    assert commands.unpin("7", request=[], required_nodes="", lease_s=60) == (
        "scontrol",
        "update",
        "jobid=7",
        "ReqNodeList=",
        "StartTime=now+60",
    )


def test_hundreds_of_leases_fit_one_call_and_arrays_stay_whole() -> None:
    job_ids = ["3", *(f"5_{task}" for task in (9, 0, 1, 2, 7)), "11"]
    assert commands.renew(job_ids, 60) == (
        "scontrol",
        "update",
        "jobid=3,11,5_[0-2,7,9]",
        "StartTime=now+60",
    )


def test_release_honours_the_users_begin() -> None:
    assert commands.release(["3"])[3:] == ("StartTime=now", "AdminComment=roost:let-go")
    assert commands.release(["3"], 1893456000)[3] == "StartTime=2030-01-01T00:00:00"


@pytest.mark.parametrize("job_id", ["1", "123_7", "16+1"])
def test_job_ids_are_accepted(job_id: str) -> None:
    assert commands.show_job(job_id)[-1] == job_id


@pytest.mark.parametrize(
    "job_id", ["", "-1", "1_", "1 2", "1;reboot", "1,2", "5_[0-3]", "--help", "1\n", "١", "all"]
)
def test_what_is_no_job_id_never_reaches_a_command(job_id: str) -> None:
    for build in (commands.show_job, lambda name: commands.renew([name], 5)):
        with pytest.raises(ValueError, match="no job id"):
            build(job_id)


def test_lease_must_not_release_and_comments_must_not_forge() -> None:
    with pytest.raises(ValueError, match="would release"):
        commands.renew(["1"], 0)
    with pytest.raises(ValueError, match="control characters"):
        commands.set_admin_comment(["1"], "a\nJobId=2")


def test_stamp_is_read_as_written() -> None:
    stamp = Stamp(
        begin_epoch_s=1893456000,
        was=(("TresPerJob", "gres:gpu:2"), ("ReqNodeList", "n[1-2],n4")),
    )
    assert parse_stamp(str(stamp)) == stamp
    assert parse_stamp("roost:lease") == Stamp()
    assert parse_stamp(advice(str(stamp), "nodes=n1 gpus=0,1")) == stamp
    told = advice(str(stamp), "waits, was=TresPerNode:gpu:9 begin=5, until 14:32")
    assert parse_stamp(told) == stamp
    assert parse_stamp("by roost:lease") is None
    assert parse_stamp("roost:let-go") is None
    assert parse_stamp("roost:lease begin=soon x") == Stamp()


def test_second_pin_keeps_the_first_request() -> None:
    first = Stamp().pinned_from((("TresPerJob", "gres:gpu:2"),))
    assert first.pinned_from((("TresPerNode", "gres:gpu:g1:1"),)) == first
