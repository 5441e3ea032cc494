"""Shadow questions: the options that amount to a job's own request, and Slurm's answers."""

from typing import Any

import pytest
from tests.slurm_glue.recorded import RELEASES, numbers, read

from roost_slurm.text.scontrol import JobDetail, parse_jobs
from roost_slurm.text.shadow_question import FirstStart, parse_answer, question
from roost_slurm.text.squeue import QueuedJob, SlurmJobState, parse_queue
from roost_slurm.text.stamp import Stamp

MIB = 1 << 20
FIXED = 5  # words at the front that are alike in every question: sbatch --test-only ...


def job(**values: Any) -> QueuedJob:
    given = {"number": 7, "user_id": 1000, "partition": "main"}
    return QueuedJob(**{**given, "tres": (("TresPerNode", "gres:gpu:2"),), **values})


def detail(**values: Any) -> JobDetail:
    given: dict[str, Any] = {"state": SlurmJobState.PENDING, "reason": "BeginTime"}
    given |= {"is_held": False, "min_node_count": 1, "max_node_count": None}
    return JobDetail(**{"number": 7, "excluded_nodes": "", "required_nodes": "", **given, **values})


def options(job: QueuedJob, detail: JobDetail, *, can_untype: bool = True) -> list[str]:
    """What differs from job to job, without user and partition."""
    argv = question(job, detail, can_untype=can_untype)
    assert argv is not None
    return list(argv[FIXED + 2 :])


def test_a_question_is_asked_for_the_owner_ahead_of_all_jobs_and_makes_no_job() -> None:
    argv = question(job(), detail(), can_untype=True)
    assert argv is not None
    assert argv[:FIXED] == (
        *("sbatch", "--test-only", "--wrap=:"),
        *("--comment=roost:shadow", "--priority=4294967290"),
    )
    assert argv[FIXED : FIXED + 2] == ("--uid=1000", "--partition=main")


@pytest.mark.parametrize(
    ("tres", "wanted"),
    [
        ({"TresPerNode": "gres:gpu:2"}, ["--gres=gpu:2"]),
        ({"TresPerNode": "gres/gpu:2"}, ["--gres=gpu:2"]),
        ({"TresPerNode": "gres:gpu:2,gres:gputoken:2"}, ["--gres=gpu:2"]),
        ({"TresPerJob": "gres:gpu:16"}, ["--gpus=16"]),
        ({"TresPerTask": "cpu=3,gres/gpu=1"}, ["--gpus-per-task=1"]),
        ({"TresPerSocket": "gres:gpu:2"}, ["--gpus-per-socket=2"]),
        (
            {"TresPerNode": "gres:gpu:1", "CpusPerTres": "gres:gpu:3"},
            ["--gres=gpu:1", "--cpus-per-gpu=3"],
        ),
        (
            {"TresPerJob": "gres/gpu:1", "MemPerTres": "gres/gpu:1000"},
            ["--gpus=1", "--mem-per-gpu=1000"],
        ),
    ],
)
def test_gpus_are_asked_for_in_the_form_of_the_job(tres: dict[str, str], wanted: list[str]) -> None:
    asked = options(job(tres=tuple(tres.items())), detail(tres=tres))
    assert asked == ["--ntasks=1", *wanted]


def test_the_rest_of_a_request_follows() -> None:
    asks = job(
        account="physics",
        qos="four",
        node_count=2,
        task_count=4,
        cpus_per_task=3,
        tasks_per_node=2,
        time_limit_s=90.0,
        features="a100&fast",
        licenses="ansys:2",
    )
    shown = detail(
        min_node_count=2,
        max_node_count=4,
        sockets_per_node=1,
        excluded_nodes="n1",
        required_nodes="n[2-3]",
        memory_per_node_bytes=2048 * MIB,
    )
    assert options(asks, shown) == [
        *("--account=physics", "--qos=four", "--nodes=2-4", "--ntasks=4", "--cpus-per-task=3"),
        *("--ntasks-per-node=2", "--sockets-per-node=1", "--gres=gpu:2", "--mem=2048M"),
        *("--time=2", "--constraint=a100&fast", "--nodelist=n[2-3]", "--exclude=n1"),
        "--licenses=ansys:2",
    ]


def test_memory_per_cpu_is_asked_for_as_such_and_memory_per_gpu_once() -> None:
    assert "--mem-per-cpu=100M" in options(job(), detail(memory_per_cpu_bytes=100 * MIB))
    tres = {"TresPerNode": "gres:gpu:1", "MemPerTres": "gres:gpu:1000"}
    shown = detail(tres=tres, memory_per_node_bytes=1000 * MIB)
    asked = options(job(tres=tuple(tres.items())), shown)
    assert [word for word in asked if "mem" in word] == ["--mem-per-gpu=1000"]


PINNED = {
    "tres": (("TresPerJob", "gres:gpu:g6:1,gres:gpu:g7:1"),),
    "admin_comment": str(
        Stamp(was=(("TresPerNode", "gres:gpu:2"), ("ReqNodeList", "n[1-4]"), ("NumNodes", "1-2")))
    ),
}


def test_a_pinned_job_is_asked_about_as_its_user_wrote_it() -> None:
    asked = options(job(**PINNED), detail(required_nodes="n2"))
    assert asked == ["--nodes=1-2", "--ntasks=1", "--gres=gpu:2", "--nodelist=n[1-4]"]


def test_where_a_pin_leaves_its_types_they_are_asked_for_on_any_node() -> None:
    asked = options(job(**PINNED), detail(required_nodes="n2"), can_untype=False)
    assert "--gpus=g6:1,g7:1" in asked
    assert "--nodelist=n[1-4]" in asked
    was = Stamp(was=(("TresPerNode", "gres:gpu:2"),))
    pinned = job(tres=(("TresPerNode", "gres:gpu:g6:1"),), admin_comment=str(was))
    asked = options(pinned, detail(required_nodes="n2"), can_untype=False)
    assert asked == ["--ntasks=1", "--gres=gpu:g6:1"]


@pytest.mark.parametrize("text", ["", "gres:gpu:((", "gres:nic:1"])
def test_a_job_without_a_readable_request_for_gpus_has_no_question(text: str) -> None:
    assert question(job(tres=(("TresPerNode", text),)), detail(), can_untype=True) is None


@pytest.mark.parametrize("release", RELEASES)
def test_every_recorded_pending_gpu_job_has_a_question(release: str) -> None:
    details = parse_jobs(read(release, "show_job.txt"))
    pending = [
        one
        for one in parse_queue(read(release, "squeue.txt")).jobs
        if one.is_pending and one.number in details and any("gpu" in value for _, value in one.tres)
    ]
    assert pending
    assert numbers(release)
    for one in pending:
        argv = question(one, details[one.number], can_untype=True)
        assert argv is not None
        assert sum("gpu" in word for word in argv) >= 1


@pytest.mark.parametrize("prefix", ["sbatch: ", "sbatch: warning: something\nsbatch: "])
@pytest.mark.parametrize("word", ["", "a "])  # 22.05 and 24.11; 26.05
def test_an_answer_names_time_and_nodes(prefix: str, word: str) -> None:
    start = f"Job 8 to start at 2026-11-22T17:08:58 {word}using 2 processors"
    told = f"{start} on nodes n[1-2] in partition x"
    assert parse_answer(prefix + told) == FirstStart(1_795_367_338.0, frozenset({"n1", "n2"}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "allocation failure: Requested node configuration is not available",
        "sbatch: Job 8 to start at soon using 1 processors on nodes n1 in partition main",
        "sbatch: Job 8 to start at 2026-11-22T17:08:58 using 1 processors on nodes n[1 in x",
        "sbatch: Job 8 to start at N/A using 1 processors on nodes n1 in partition main",
    ],
)
def test_anything_else_is_no_answer(text: str) -> None:
    assert parse_answer(text) is None
