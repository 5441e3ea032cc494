"""Recorded queues of three releases, in Roost's terms."""

from dataclasses import replace
from typing import Any

import pytest
from tests.slurm_glue.recorded import RELEASES, numbers, read

from roost_engine.domain.model import JobId, JobSpec, NodeName, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_slurm.text.scontrol import parse_jobs
from roost_slurm.text.squeue import QueuedJob, parse_queue
from roost_slurm.text.tres import prefix_of
from roost_slurm.text.versions import parse_version, traits_of
from roostd.config.config import Mode
from roostd.slurm.jobs import NO_GPUS, NOT_SPELLED, JobReader, Unmanaged
from roostd.slurm.request import pin_argv

MIB = 1 << 20


def reader(release: str, mode: Mode = Mode.SHADOW, accounts_memory: bool = False) -> JobReader:
    return JobReader(
        to_engine_s=lambda epoch_s: epoch_s - 1_000_000_000,
        mode_of=lambda partition: mode,
        traits=traits_of(parse_version(read(release, "version.txt"))),
        accounts_memory=accounts_memory,
        is_model=lambda name: name == "h100",
    )


def record(release: str, name: str) -> QueuedJob:
    jobs = {job.number: job for job in parse_queue(read(release, "squeue.txt")).jobs}
    return jobs[numbers(release)[name]]


def read_job(
    release: str,
    name: str,
    *,
    mode: Mode = Mode.SHADOW,
    accounts_memory: bool = False,
    changes: dict[str, Any] | None = None,
) -> JobSpec | Unmanaged:
    job = replace(record(release, name), **changes or {})
    details = parse_jobs(read(release, "show_job.txt"))
    job_id = JobId(job.job_ids[0])
    return reader(release, mode, accounts_memory).read(job, details.get(job.number), job_id)


def shapes(spec: JobSpec | Unmanaged) -> list[tuple[int, int, int]]:
    assert isinstance(spec, JobSpec), spec
    return [(shape.node_count, shape.gpus_per_node, shape.cpus_per_node) for shape in spec.shapes]


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("TresPerNode=gres:gpu:2", "TresPerNode=gpu:2"),  # scontrol update TresPerNode=gpu:2
        ("TresPerNode=gres:gpu:2", "Comment=a\nJobId=1 a=b TresPerNode=gres:gpu:2"),
    ],
)
def test_a_job_whose_record_shows_no_request_as_slurm_writes_it_is_left_to_slurm_at_once(
    text: str, instead: str
) -> None:
    release = "22.05"
    job = record(release, "gres")
    shown = read(release, "show_job.txt")
    assert text in shown
    detail = parse_jobs(shown.replace(text, instead), [job.number]).get(job.number)
    assert detail is not None
    read_as = reader(release).read(job, detail, JobId(job.job_ids[0]))
    assert read_as == Unmanaged(NOT_SPELLED)


@pytest.mark.parametrize(
    ("siblings", "is_left"), [("local,other", True), ("local", False), ("(null)", False)]
)
def test_a_job_of_a_federation_is_left_to_slurm(siblings: str, is_left: bool) -> None:
    """Slurm refuses its pin: `Job resizing not supported for job arrays` (22.05)."""
    job, shown = record("22.05", "gres"), read("22.05", "show_job.txt")
    federated = f"FedOrigin=local FedViableSiblings={siblings} FedActiveSiblings={siblings}"
    shown = shown.replace(" NumNodes=", f" {federated} NumNodes=")
    detail = parse_jobs(shown, [job.number])[job.number]
    read_as = reader("22.05").read(job, detail, JobId(job.job_ids[0]))
    assert isinstance(read_as, Unmanaged) is is_left
    if isinstance(read_as, Unmanaged):
        assert "another cluster" in read_as.reason


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("gres", [(1, 2, 1)]),
        ("gpus", [(1, 2, 1), (2, 1, 1)]),
        ("gpus-per-node", [(1, 2, 1)]),
        ("gpus-per-task", [(1, 2, 2)]),
        ("gpus-per-socket", [(1, 2, 1)]),
        ("ntasks-per-gpu", [(1, 2, 2), (2, 1, 1)]),
        ("cpus-per-gpu", [(1, 2, 4), (2, 1, 2)]),
        ("mem-per-cpu", [(1, 2, 6)]),
        ("two-nodes-tasks", [(2, 2, 2)]),
        ("node-range", [(1, 4, 1), (2, 2, 1)]),
        ("array", [(1, 1, 1)]),
    ],
)
def test_request_becomes_shapes(
    release: str, name: str, wanted: list[tuple[int, int, int]]
) -> None:
    assert shapes(read_job(release, name)) == wanted


@pytest.mark.parametrize("release", RELEASES)
def test_what_the_user_asked_for_beside_gpus_is_kept(release: str) -> None:
    lists, features = read_job(release, "lists"), read_job(release, "features")
    assert isinstance(lists, JobSpec)
    assert (lists.required_nodes, lists.excluded_nodes) == (("n1",), ("n2", "n3"))
    assert isinstance(features, JobSpec)
    assert features.features == ("a100", "big")
    assert features.time_limit_s == 93840.0
    begins = read_job(release, "gres")
    assert isinstance(begins, JobSpec)
    assert begins.eligible_s == 893456000.0


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no-gpu", NO_GPUS),
        ("pinned-typed", "names its GPUs itself: g6, g7"),
        ("het", "heterogeneous"),
    ],
)
def test_what_roost_cannot_place_is_left_to_slurm(release: str, name: str, reason: str) -> None:
    left = read_job(release, name)
    assert isinstance(left, Unmanaged)
    assert reason in left.reason


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("token", ["h100", "gputoken"])
def test_the_tokens_of_its_gpus_are_no_other_request(release: str, token: str) -> None:
    ((name, request),) = record(release, "gpus").tres
    prefix = prefix_of(request)
    counted = {"tres": ((name, f"{prefix}gpu:2,{prefix}{token}:2"),)}
    assert shapes(read_job(release, "gpus", changes=counted)) == [(1, 2, 1), (2, 1, 1)]


def test_another_gres_beside_gpus_is_left_to_slurm() -> None:
    tres = (("TresPerJob", "gres:gpu:2,gres:nvme:1,gres:h100:2"),)
    left = read_job("22.05", "gpus", changes={"tres": tres})
    assert left == Unmanaged("asks for nvme beside GPUs")


@pytest.mark.parametrize("release", RELEASES)
def test_exclusive_job_is_left_to_slurm(release: str) -> None:
    left = read_job(release, "exclusive")
    assert isinstance(left, Unmanaged)
    assert "--exclusive" in left.reason


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"reservation": "maint"}, "reservation maint"),
        ({"features": "a100|h100"}, "more than a list"),
        ({"partition": "main,debug"}, "any of the partitions main,debug"),
        ({"tres": (("TresPerNode", "gres:gpu:1"), ("TresPerJob", "gres:gpu:1"))}, "in two ways"),
        ({"tres": (("TresPerNode", "gres:gpu:1"), ("TresPerTask", "gres:gpu:1"))}, "in two ways"),
        ({"tres": (("TresPerNode", "gres:gpu:1,gres:shard:2"),)}, "asks for shard beside GPUs"),
        ({"tres": (("TresPerNode", "gres:gpu:a100:2"),)}, "names its GPUs itself"),
        (
            {"tres": (("TresPerNode", "gres:gpu:g4:1"),), "admin_comment": "roost:let-go"},
            "was pinned and released: this Slurm gives it only the GPUs g4 of a node",
        ),
        ({"tres": (("TresPerNode", "gres:gpu::"),)}, "cannot be read"),
    ],
)
def test_unusual_requests_are_left_to_slurm(changes: dict[str, Any], reason: str) -> None:
    left = read_job("22.05", "gres", changes=changes)
    assert isinstance(left, Unmanaged)
    assert reason in left.reason


def test_untrusted_record_is_left_to_slurm() -> None:
    left = reader("22.05").read(record("22.05", "gres"), None, JobId("6"))
    assert isinstance(left, Unmanaged)
    assert "cannot be trusted" in left.reason


def test_per_task_job_on_several_nodes_needs_a_number_of_tasks_a_node() -> None:
    assert isinstance(read_job("22.05", "two-nodes-tasks"), JobSpec)
    left = read_job("22.05", "two-nodes-tasks", changes={"tasks_per_node": None})
    assert isinstance(left, Unmanaged)


def test_mode_decides_what_is_binding() -> None:
    held = read_job("22.05", "gres", mode=Mode.ENFORCE)
    assert isinstance(held, JobSpec)
    assert held.binding
    shadow = read_job("22.05", "gres", mode=Mode.SHADOW)
    assert isinstance(shadow, JobSpec)
    assert not shadow.binding
    unheld = read_job("22.05", "gpus", mode=Mode.ENFORCE)
    assert isinstance(unheld, Unmanaged)
    assert "no lease" in unheld.reason
    off = read_job("22.05", "gpus", mode=Mode.OFF)
    assert isinstance(off, Unmanaged)


@pytest.mark.parametrize(
    ("name", "memory_mib"),
    [("cpus-per-gpu", 200), ("mem-per-cpu", 300), ("gres", 64_000)],
)
def test_memory_counts_only_where_slurm_hands_it_out(name: str, memory_mib: int) -> None:
    accounted = read_job("22.05", name, accounts_memory=True)
    assert isinstance(accounted, JobSpec)
    assert accounted.shapes[0].memory_per_node_bytes == memory_mib * MIB
    ignored = read_job("22.05", name)
    assert isinstance(ignored, JobSpec)
    assert ignored.shapes[0].memory_per_node_bytes == 0


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("name", ["gres", "gpus", "gpus-per-task", "cpus-per-gpu", "node-range"])
@pytest.mark.parametrize("is_batch", [True, False], ids=["sbatch", "srun"])
def test_pinned_job_reads_as_it_did_before(release: str, name: str, is_batch: bool) -> None:
    """Otherwise every pin would show as a change of the job, which would be decided again.

    But for the indices: 22.05 gives the job no others any more.
    """
    job = record(release, name)
    detail = parse_jobs(read(release, "show_job.txt"))[job.number]
    job_id = JobId(str(job.number))
    before = reader(release).read(job, detail, job_id)
    chosen = Placement((NodeName("n2"),), (4, 5), Shape(node_count=1, gpus_per_node=2), Tier.NODE)
    traits = traits_of(parse_version(read(release, "version.txt")))
    argv = pin_argv(job_id, replace(detail, is_batch=is_batch), chosen, traits)
    given = dict(word.partition("=")[::2] for word in argv[2:])
    kept = {field: text for field, text in job.tres if field in ("MemPerTres",)}
    pinned = replace(
        job,
        tres=tuple((kept | {f: text for f, text in given.items() if "Per" in f and text}).items()),
        required_nodes=given["ReqNodeList"],
        admin_comment=given["AdminComment"],
    )
    least, _, most = given.get("NumNodes", "").partition("-")
    after = reader(release).read(
        pinned,
        replace(
            detail,
            min_node_count=int(least) if least else detail.min_node_count,
            max_node_count=int(most) if most else detail.max_node_count,
        ),
        job_id,
    )
    assert isinstance(after, JobSpec)
    assert after.fixed_indices == ((4, 5) if release == "22.05" else ())
    assert replace(after, fixed_indices=()) == before


@pytest.mark.parametrize(
    ("comment", "needed_gib"),
    [
        ("roost:share=yes", 12),  # of earlier runs
        ("roost:share=yes,memory=20G", 20),
        ("roost:share=yes,memory=5G", 12),  # earlier runs used more
        ("roost:memory=5G", 5),  # it shares nothing
        ("", 0),
    ],
)
def test_a_job_that_shares_needs_what_it_says_or_what_earlier_runs_used(
    comment: str, needed_gib: int
) -> None:
    job = record("24.11", "gres")
    detail = parse_jobs(read("24.11", "show_job.txt"))[job.number]

    def memory_of(user_id: int, name: str, stated_bytes: int) -> int:
        assert (user_id, name) == (job.user_id, detail.name)
        return max(12 << 30, stated_bytes)

    spec = replace(reader("24.11"), memory_of=memory_of).read(
        job, replace(detail, comment=comment), JobId("1")
    )
    assert isinstance(spec, JobSpec)
    assert spec.gpu_memory_bytes == needed_gib << 30


@pytest.mark.parametrize(
    ("comment", "qos", "shares"),
    [
        ("roost:share=yes", "normal", True),
        ("roost:model=bert", "normal", False),
        ("", "shared", True),
        ("roost:model=bert", "shared", True),
        ("roost:share=no", "shared", False),
        ("roost:share=No", "shared", False),  # unreadable: never beside another by mistake
    ],
)
def test_what_the_comment_says_of_sharing_beats_the_qos(
    comment: str, qos: str, shares: bool
) -> None:
    job = record("24.11", "gres")
    detail = parse_jobs(read("24.11", "show_job.txt"))[job.number]
    spec = replace(reader("24.11"), is_sharing_qos=lambda name: name == "shared").read(
        job, replace(detail, comment=comment, qos=qos), JobId("1")
    )
    assert isinstance(spec, JobSpec)
    assert spec.shares_gpus is shares
