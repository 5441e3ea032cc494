import re

import pytest
from tests.slurm_glue.recorded import RELEASES, numbers, read

from roost_slurm.text.scontrol import (
    JobDetail,
    parse_config,
    parse_jobs,
    parse_nodes,
    parse_racks,
)
from roost_slurm.text.squeue import SlurmJobState

MIB = 1 << 20


def genuine(text: str) -> str:
    """The recording without the line that a user forged."""
    return "".join(line for line in text.splitlines(True) if "JobName=forged" not in line)


def recorded(release: str) -> dict[str, JobDetail]:
    details = parse_jobs(genuine(read(release, "show_job.txt")))
    return {name: details[number] for name, number in numbers(release).items() if number in details}


@pytest.mark.parametrize("release", RELEASES)
def test_allocated_gpus_cpus_and_memory_are_read_per_node(release: str) -> None:
    jobs = recorded(release)
    (typed,) = jobs["typed"].allocated
    assert (typed.node, typed.gpu_indices, typed.cpu_count) == ("n1", (2, 3), 2)
    assert [node.node for node in jobs["two-nodes"].allocated] == ["n1", "n2"]
    assert all(len(node.gpu_indices) == 1 for node in jobs["two-nodes"].allocated)
    (no_gpu,) = jobs["no-gpu"].allocated
    assert no_gpu.gpu_indices == ()
    assert no_gpu.cpu_count == 2
    held = [
        (node.node, gpu)
        for job in jobs.values()
        for node in job.allocated
        for gpu in node.gpu_indices
    ]
    assert len(held) == len(set(held)) == 7


def test_gpus_of_shards_are_read_beside_whole_ones() -> None:
    """As 22.05 shows them: GRES=shard:1(IDX:0)."""
    record = read("22.05", "show_job.txt").splitlines()
    typed = next(line for line in record if line.startswith(f"JobId={numbers('22.05')['no-gpu']} "))
    shards = re.sub(r"( Mem=\d+ GRES=)\S*", r"\1shard:1(IDX:3)", typed)
    ((node,),) = (job.allocated for job in parse_jobs(shards).values())
    assert (node.gpu_indices, node.shared_indices) == ((), (3,))


def test_a_job_that_is_exclusive_to_its_user_is_told_from_others() -> None:
    """As 26.05 shows them; earlier releases say it in squeue."""
    record = read("22.05", "show_job.txt").splitlines()
    number = numbers("22.05")["no-gpu"]
    line = next(line for line in record if line.startswith(f"JobId={number} "))
    for shown in ("NO", "NODE", "USER", "TOPO"):
        said = line.replace(" OverSubscribe=", f" Exclusive={shown} OverSubscribe=")
        assert parse_jobs(said)[number].exclusive_to == shown


@pytest.mark.parametrize("release", RELEASES)
def test_what_squeue_does_not_tell_is_read(release: str) -> None:
    jobs = recorded(release)
    assert jobs["lists"].excluded_nodes in ("n2,n3", "n[2-3]")
    assert (jobs["gpus-per-node"].min_node_count, jobs["gpus-per-node"].max_node_count) == (1, 1)
    assert (jobs["node-range"].min_node_count, jobs["node-range"].max_node_count) == (1, 2)
    assert (jobs["gpus"].min_node_count, jobs["gpus"].max_node_count) == (1, None)
    assert jobs["mem-per-cpu"].memory_per_cpu_bytes == 50 * MIB
    assert jobs["two-nodes"].memory_per_node_bytes == 200 * MIB
    assert jobs["gres"].memory_per_node_bytes is None
    assert jobs["array"].task_limit == 2
    assert jobs["gpus-per-socket"].sockets_per_node == 1
    assert jobs["held"].is_held
    assert not jobs["gres"].is_held
    assert jobs["gres"].admin_comment == "roost:lease begin=1893456000"
    assert jobs["gres"].is_batch


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_of_srun_or_salloc_has_no_script(release: str) -> None:
    text = genuine(read(release, "show_job.txt")).replace("BatchFlag=1", "BatchFlag=0")
    assert not any(job.is_batch for job in parse_jobs(text).values())


@pytest.mark.parametrize("release", RELEASES)
def test_comment_full_of_keys_forges_nothing(release: str) -> None:
    """The recorded comment holds a line `JobId=1 ...`: neither record of job 1 is believed."""
    text = read(release, "show_job.txt")
    assert "\nJobId=1 JobName=forged" in text
    assert 1 not in parse_jobs(text)
    assert parse_jobs(genuine(text))[1].state is SlurmJobState.RUNNING


@pytest.mark.parametrize("release", RELEASES)
def test_names_are_read(release: str) -> None:
    jobs = recorded(release)
    assert {name: job.name for name, job in jobs.items()} == {name: name for name in jobs}
    assert {(job.comment, job.qos) for name, job in jobs.items() if name != "forger"} == {("", "")}


RECORD = (
    "JobId=5 JobName={name} UserId=root(0) Priority=1 QOS={qos} JobState=PENDING NumNodes=1"
    " ReqNodeList=(null) ExcNodeList=(null) MinCPUsNode=1 WorkDir=/tmp"
    " AdminComment=roost:lease  Comment={comment}  StdErr=/tmp/5.out Power= "
)


@pytest.mark.parametrize(
    ("name", "comment", "qos", "read_name", "read_comment", "read_qos"),
    [
        ("bert", "roost:model=bert", "normal", "bert", "roost:model=bert", "normal"),
        ("my job", "a b roost:model=x", "(null)", "my job", "a b roost:model=x", ""),
        ("bert", "x", "big jobs", "bert", "x", "big jobs"),
        ("a\nb\x1bc", "x", "q", "a?b?c", "x", "q"),
        ("x" * 300, "x", "q", "x" * 200, "x", "q"),
        # Texts that imitate keys: the job continues, what they tell is not believed.
        ("x Comment=roost:checkpoint=1", "y", "q", "x Comment=roost:checkpoint=1", None, "q"),
        ("x QOS=cheap", "y", "q", "x QOS=cheap", "y", ""),
        ("x UserId=root(0)", "y", "q", "x", "y", "q"),
        ("x", "y Comment=roost:checkpoint=1", "q", "x", None, "q"),
    ],
)
def test_what_users_write_is_read_or_left_alone(
    name: str, comment: str, qos: str, read_name: str, read_comment: str | None, read_qos: str
) -> None:
    job = parse_jobs(RECORD.format(name=name, comment=comment, qos=qos))[5]
    assert (job.name, job.comment, job.qos) == (read_name, read_comment, read_qos)
    assert job.admin_comment == "roost:lease"


def test_key_that_occurs_twice_spoils_the_record() -> None:
    good = (
        "JobId=5 JobName=x JobState=PENDING NumNodes=1 ReqNodeList=(null) ExcNodeList=(null)"
        " MinCPUsNode=1"
    )
    assert set(parse_jobs(good)) == {5}
    assert parse_jobs(good.replace("JobName=x", "JobName=x ReqNodeList=n9")) == {}
    assert parse_jobs(good.replace("NumNodes=1", "NumNodes=lots")) == {}
    assert parse_jobs(good + "\n" + good) == {}
    assert parse_jobs(good.partition(" ExcNodeList")[0]) == {}


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_are_read(release: str) -> None:
    n1, n2, n3 = parse_nodes(read(release, "show_nodes.txt"))
    assert [node.name for node in (n1, n2, n3)] == ["n1", "n2", "n3"]
    assert n1.is_open
    assert n2.is_open
    assert not n3.is_open
    assert "drain" in n3.state
    assert n3.reason.startswith("fan broken, Tuesday")
    assert (n1.gpu_count, n3.gpu_count) == (8, 4)
    assert n1.features == ("a100", "big")
    assert n1.partitions == ("main",)
    assert n1.cpu_count == 16
    assert n1.memory_bytes == 64_000 * MIB
    assert n1.socket_count == 1
    line = read(release, "show_nodes.txt").split("\n")[0]
    (dual,) = parse_nodes(line.replace("Sockets=1", "Sockets=2"))
    assert dual.socket_count == 2


@pytest.mark.parametrize("release", RELEASES)
def test_leaf_switches_are_racks(release: str) -> None:
    racks = parse_racks(read(release, "show_topology.txt"))
    assert racks == {"n1": "left", "n2": "left", "n3": "right"}
    assert parse_racks("") == {}


@pytest.mark.parametrize(
    ("state", "is_open"),
    [
        ("IDLE", True),
        ("MIXED", True),
        ("ALLOCATED", True),
        ("MIXED+PLANNED", True),
        ("IDLE*", False),
        ("IDLE+DRAIN", False),
        ("MIXED+DRAIN", False),
        ("DOWN", False),
        ("DOWN*+NOT_RESPONDING", False),
        ("IDLE+RESERVED", True),
        ("IDLE+POWERED_DOWN", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("MIXED+NOT_RESPONDING+POWERING_UP", True),
        ("MIXED+CLOUD", True),
        ("IDLE+NOT_RESPONDING", False),
        ("IDLE+POWERING_DOWN", False),
        ("MIXED+POWER_DOWN", False),
        ("IDLE+DRAIN+POWERED_DOWN", False),
        ("DOWN+POWERED_DOWN+NOT_RESPONDING", False),
        ("IDLE+INVALID_REG", False),
    ],
)
def test_node_state_tells_whether_jobs_may_go_there(state: str, is_open: bool) -> None:
    line = (
        f"NodeName=n1 CPUAlloc=0 CPUTot=4 RealMemory=10 AllocMem=0 State={state}"
        " Gres=gpu:g0:1(S:0),gpu:g1:1,gpu:s0:1,gputoken:2"
    )
    (node,) = parse_nodes(line)
    assert node.is_open is is_open
    assert node.gpu_count == 2


@pytest.mark.parametrize("release", RELEASES)
def test_settings_are_read(release: str) -> None:
    settings = parse_config(read(release, "show_config.txt"))
    assert settings.cluster_name == "local"
    assert not settings.accounts_memory


@pytest.mark.parametrize(
    ("gres", "is_typed"),
    [
        ("gpu:g0:1,gpu:g1:1(S:0-1),gpu:g2:1", True),
        ("gpu:g1:1,gpu:g0:1,nic:2,gpu:s0:1,gpu:s1:1", True),
        ("gpu:a100:4", False),
        ("gpu:2", False),
        ("gpu:g0:1,gpu:a100:1", False),
        ("gpu:g0:1,gpu:g2:1", False),
        ("gpu:g0:2", False),
    ],
)
def test_types_by_index_are_told_from_those_of_a_stock_site(gres: str, is_typed: bool) -> None:
    line = read("22.05", "show_nodes.txt").split("\n")[0]
    (shown,) = parse_nodes(re.sub(r" Gres=\S+", f" Gres={gres}", line))
    assert shown.is_typed is is_typed


@pytest.mark.parametrize("text", ["", "\n", "No jobs in the system\n", "slurm_load_jobs error\n"])
def test_an_answer_without_a_record_has_no_jobs(text: str) -> None:
    assert parse_jobs(text) == {}


def test_of_many_jobs_only_those_that_are_wanted_are_read() -> None:
    text = read("22.05", "show_job.txt")
    every = parse_jobs(text)
    number = sorted(every)[1]
    assert parse_jobs(text, {number, 4_000_000}) == {number: every[number]}
    assert parse_jobs(text + text, {number}) == {}  # it stands twice: one may be forged
