"""Jobs that ask for absurd numbers: one clear reason each, and nothing is built for them."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon.slurm.test_jobs import reader, record
from tests.slurm_glue.recorded import read

from roost_engine.domain.events import JobQueued, Tick
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.testing import builders
from roost_slurm.text.scontrol import parse_jobs
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import Stamp
from roostd.slurm import jobs
from roostd.slurm.comment import parse_comment
from roostd.slurm.jobs import Unmanaged
from roostd.slurm.limits import (
    LONGEST_REASON,
    MOST_CPUS_PER_NODE,
    MOST_FEATURES,
    MOST_GPUS,
    MOST_GPUS_PER_NODE,
    MOST_MEMORY_PER_NODE_BYTES,
    MOST_NODES,
    MOST_SHAPES,
)

HUGE = 49_999_999
PER_NODE = (("TresPerNode", "gres:gpu:1"),)


def read_changed(
    job_changes: dict[str, Any],
    detail_changes: dict[str, Any] | None = None,
    *,
    accounts_memory: bool = False,
) -> JobSpec | Unmanaged:
    """Read the recorded job "gpus", of two GPUs, as if its user had asked for something else."""
    job = replace(record("22.05", "gpus"), **job_changes)
    detail = parse_jobs(read("22.05", "show_job.txt"))[job.number]
    changed = replace(detail, **detail_changes or {})
    return reader("22.05", accounts_memory=accounts_memory).read(job, changed, JobId("7"))


def reason(found: JobSpec | Unmanaged) -> str:
    assert isinstance(found, Unmanaged), found
    return found.reason


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[Shape]:
    """Every shape that the reading of a job builds."""
    shapes: list[Shape] = []

    def build(**fields: Any) -> Shape:
        shapes.append(Shape(**fields))
        return shapes[-1]

    monkeypatch.setattr(jobs, "Shape", build)
    return shapes


@pytest.mark.parametrize(
    ("job_changes", "detail_changes", "wanted"),
    [
        ({"tres": PER_NODE}, {"max_node_count": HUGE}, f"may get {HUGE} nodes"),
        ({}, {"max_node_count": HUGE}, f"may get {HUGE} nodes"),
        ({"tres": PER_NODE}, {"min_node_count": HUGE}, f"may get {HUGE} nodes"),
        ({"tres": PER_NODE}, {"max_node_count": 10**19}, f"may get {10**19} nodes"),
        ({"tres": (("TresPerJob", f"gres:gpu:{MOST_GPUS + 1}"),)}, {}, f"{MOST_GPUS + 1} nodes"),
        (
            {"tres": (("TresPerJob", f"gres:gpu:{MOST_GPUS + 1}"),)},
            {"max_node_count": 4},
            f"may get {MOST_GPUS + 1} GPUs",
        ),
        ({"tres": (("TresPerNode", "gres:gpu:9999"),)}, {}, "may get 9999 GPUs a node"),
        (
            {"tres": (("TresPerSocket", "gres:gpu:1"),)},
            {"sockets_per_node": HUGE},
            f"may get {HUGE} GPUs a node",
        ),
        (
            {"tres": (("TresPerTask", "gres:gpu:1"),), "task_count": HUGE},
            {},
            f"may get {HUGE} GPUs a node",
        ),
        ({"cpu_count": HUGE, "tres": PER_NODE}, {}, f"may get {HUGE} CPUs a node"),
        ({"tres": (*PER_NODE, ("CpusPerTres", "gres:gpu:70000"))}, {}, "70000 CPUs a node"),
        ({"tres": (("TresPerNode", "gres:gpu:" + "9" * 5_000),)}, {}, "cannot be read"),
        ({"tres": (*PER_NODE, ("CpusPerTres", "gres:gpu:" + "9" * 5_000))}, {}, "cannot be read"),
        ({"required_nodes": "n[1-99999999]"}, {}, "more than 100000 names"),
        ({}, {"excluded_nodes": "n" + "[1-999]" * 9}, "more than 100000 names"),
        ({"features": "&".join(["a"] * (MOST_FEATURES + 1))}, {}, "more than 64 features"),
        ({"unread_task_count": 20_001}, {}, "its array has 20001 tasks"),
    ],
)
def test_a_job_that_asks_for_an_absurd_number_is_left_to_slurm_and_says_which(
    built: list[Shape], job_changes: dict[str, Any], detail_changes: dict[str, Any], wanted: str
) -> None:
    assert wanted in reason(read_changed(job_changes, detail_changes))
    assert len(built) <= MOST_SHAPES


@pytest.mark.parametrize("amount", ["gres:gpu:9999999P", "gres:gpu:" + "9" * 400])
def test_an_absurd_amount_of_memory_is_left_to_slurm(amount: str) -> None:
    left = read_changed({"tres": (*PER_NODE, ("MemPerTres", amount))}, accounts_memory=True)
    assert "cannot be read" in reason(left)


def test_memory_that_adds_up_to_an_absurd_amount_is_left_to_slurm() -> None:
    left = read_changed(
        {"tres": (*PER_NODE, ("MemPerTres", "gres:gpu:1000P"))}, accounts_memory=True
    )
    assert "bytes a node" in reason(left)


def test_a_wide_range_of_nodes_gives_the_first_shapes_only(built: list[Shape]) -> None:
    spec = read_changed({"tres": PER_NODE}, {"max_node_count": MOST_NODES})

    assert isinstance(spec, JobSpec)
    assert [shape.node_count for shape in spec.shapes] == list(range(1, MOST_SHAPES + 1))
    assert len(built) == MOST_SHAPES


@pytest.mark.parametrize(
    ("gpu_count", "node_counts"),
    [
        (2, [1, 2]),
        (12, [1, 2, 3, 4, 6, 12]),
        (99_991, [1]),  # a prime; as many nodes would be 99,991
        (100_000, [1, 2, 4, 5, 8, 10, 16, 20]),
    ],
)
def test_gpus_of_a_job_divide_among_the_numbers_that_divide_them(
    built: list[Shape], gpu_count: int, node_counts: list[int]
) -> None:
    changes = {"tres": (("TresPerJob", f"gres:gpu:{gpu_count}"),)}
    found = read_changed(changes, {"max_node_count": 99_990})
    if gpu_count > MOST_GPUS_PER_NODE:
        assert "GPUs a node" in reason(found)
    assert [shape.node_count for shape in built] == node_counts


@given(
    least=st.integers(0, 10**20),
    most=st.none() | st.integers(0, 10**20),
    tres=st.sampled_from(["TresPerJob", "TresPerNode", "TresPerTask", "TresPerSocket"]),
    count=st.integers(0, 10**18),
    task_count=st.integers(0, 10**20),
    tasks_per_node=st.none() | st.integers(1, 10**20),
    cpu_count=st.integers(0, 10**20),
    was=st.none() | st.text("0123456789-", max_size=30),
    begin=st.none() | st.integers(0, 10**30),
)
def test_any_numbers_are_a_job_within_the_limits_or_a_reason(
    least: int,
    most: int | None,
    tres: str,
    count: int,
    task_count: int,
    tasks_per_node: int | None,
    cpu_count: int,
    was: str | None,
    begin: int | None,
) -> None:
    stamp = Stamp(
        begin_epoch_s=begin,
        was=() if was is None else ((tres, f"gres:gpu:{count}"), ("NumNodes", was)),
    )
    job_changes: dict[str, Any] = {
        "tres": ((tres, f"gres:gpu:{count}"),),
        "task_count": task_count,
        "tasks_per_node": tasks_per_node,
        "cpu_count": cpu_count,
        "admin_comment": str(stamp),
    }
    found = read_changed(job_changes, {"min_node_count": least, "max_node_count": most})

    if isinstance(found, Unmanaged):
        assert 0 < len(found.reason) <= LONGEST_REASON
        return
    assert 0 < len(found.shapes) <= MOST_SHAPES
    for shape in found.shapes:
        assert 0 < shape.node_count <= MOST_NODES
        assert 0 < shape.gpus_per_node <= MOST_GPUS_PER_NODE
        assert 0 < shape.cpus_per_node <= MOST_CPUS_PER_NODE


@given(
    tres=st.dictionaries(
        st.sampled_from(["TresPerJob", "TresPerNode", "TresPerTask", "CpusPerTres", "MemPerTres"]),
        st.text("gpures:/=,0123456789kMGP()", max_size=30) | st.from_regex(r"gres:gpu:\d+[kMGPn]?"),
    ),
    required=st.text("n01[]-,", max_size=20),
    excluded=st.text("n01[]-,", max_size=20),
    features=st.text("ab&,|*", max_size=20),
)
def test_any_text_of_a_request_is_a_job_or_a_reason(
    tres: dict[str, str], required: str, excluded: str, features: str
) -> None:
    found = read_changed(
        {"tres": tuple(tres.items()), "required_nodes": required, "features": features},
        {"excluded_nodes": excluded},
        accounts_memory=True,
    )
    assert isinstance(found, JobSpec) or found.reason


def test_the_engine_takes_the_largest_job_that_is_read() -> None:
    harness = builders.EngineHarness([builders.node("n1"), builders.node("n2")], builders.bridges())
    shapes = tuple(
        Shape(
            node_count=MOST_NODES - number,
            gpus_per_node=MOST_GPUS_PER_NODE,
            cpus_per_node=MOST_CPUS_PER_NODE,
            memory_per_node_bytes=MOST_MEMORY_PER_NODE_BYTES,
        )
        for number in range(MOST_SHAPES)
    )
    largest = replace(builders.job("1", gpus=1), shapes=shapes, time_limit_s=4e11)
    small = builders.job("2", gpus=1, submit_s=1.0)

    for event in (JobQueued(at_s=2.0, job=largest), JobQueued(at_s=2.0, job=small)):
        harness.engine.step(event)

    assert harness.engine.record(JobId("1")).placement is None
    assert harness.engine.record(JobId("2")).placement is not None
    harness.engine.step(Tick(at_s=10_000.0))  # its patience is spent: are nodes reserved?
    assert harness.engine.record(JobId("1")).placement is None


def test_a_long_text_in_a_reason_is_cut() -> None:
    job: QueuedJob = record("22.05", "gpus")
    left = reader("22.05").read(replace(job, features="a|" * 60_000), None, JobId("7"))
    assert len(reason(left)) <= LONGEST_REASON
    assert len(reason(read_changed({"features": "a|" * 60_000}))) <= LONGEST_REASON


def test_a_comment_of_absurd_length_is_one_problem() -> None:
    told = parse_comment("roost:" + "a," * 60_000)
    assert told is not None
    assert told.problems == ("its roost: word has more than 1000 letters: not read",)
