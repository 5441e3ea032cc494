"""A job's request as Slurm has it: which updates change it, and how an allocation differs."""

from dataclasses import replace
from typing import Any

import pytest
from tests.daemon.slurm.slurm_clusters import placement

from roost_engine.domain.errors import SlurmRefused
from roost_engine.domain.model import JobId
from roost_engine.testing.builders import share
from roost_slurm.text.scontrol import AllocatedNode, JobDetail
from roost_slurm.text.squeue import SlurmJobState
from roost_slurm.text.versions import SlurmVersion, Traits, traits_of
from roostd.slurm.request import (
    asked,
    check_repinnable,
    check_requeuable,
    difference,
    is_pinned,
    pin_argv,
    pinned_indices,
    shares_of,
    unpin_argv,
)

SEVEN = JobId("7")
OLD, NEW = traits_of(SlurmVersion(22, 5, 8)), traits_of(SlurmVersion(24, 11, 5))
PINNED = "roost:lease was=TresPerJob:gres/gpu:2;ReqNodeList:n1"


def detail(**changes: Any) -> JobDetail:
    plain: dict[str, Any] = {
        "number": 7,
        "state": SlurmJobState.PENDING,
        "reason": "BeginTime",
        "is_held": False,
        "min_node_count": 1,
        "max_node_count": None,
        "excluded_nodes": "",
        "required_nodes": "",
    }
    return JobDetail(**plain | changes)


def values(argv: tuple[str, ...]) -> dict[str, str]:
    return dict(word.partition("=")[::2] for word in argv[2:])


def test_a_pin_notes_the_request_that_it_replaces() -> None:
    job = detail(
        tres={"TresPerJob": "gres/gpu:2"}, required_nodes="n1", admin_comment="roost:lease"
    )

    update = values(pin_argv(SEVEN, job, placement("n1", 2, 3), NEW))

    assert update["AdminComment"] == PINNED + ";NumNodes:1"
    assert update["ReqNodeList"] == "n1"
    assert update["TresPerNode"] == "gres/gpu:g2:1,gres/gpu:g3:1"
    assert update["TresPerJob"] == ""
    assert update["StartTime"] == "now"


def test_a_second_pin_keeps_the_first_request() -> None:
    job = detail(tres={"TresPerNode": "gres/gpu:g2:1"}, admin_comment=PINNED)
    assert values(pin_argv(SEVEN, job, placement("n2", 0), NEW))["AdminComment"] == PINNED


@pytest.mark.parametrize(
    ("tres", "indices"),
    [
        ({"TresPerNode": "gres:gpu:g5:1,gres:gpu:g2:1"}, (2, 5)),
        ({"TresPerNode": "", "TresPerJob": "gres/gpu:g1:2"}, (1,)),
        ({"TresPerNode": "gres/gpu:2"}, ()),
        ({"TresPerTask": "cpu=3,gres/gpu=1"}, ()),
        ({"TresPerNode": "gres:gpu:g2:x"}, ()),
    ],
    ids=["per node", "per job", "untyped", "per task", "unreadable"],
)
def test_a_pinned_request_names_its_gpus(tres: dict[str, str], indices: tuple[int, ...]) -> None:
    assert pinned_indices(tres) == indices


def test_a_release_that_keeps_types_gives_a_job_no_other_gpus() -> None:
    pinned = detail(tres={"TresPerNode": "gres:gpu:g2:1,gres:gpu:g3:1"}, admin_comment=PINNED)
    fresh = detail(tres={"TresPerNode": "gres:gpu:2"})
    check_repinnable(SEVEN, pinned, placement("n2", 2, 3), OLD)
    check_repinnable(SEVEN, pinned, placement("n2", 4, 5), NEW)
    check_repinnable(SEVEN, fresh, placement("n2", 4, 5), OLD)
    with pytest.raises(SlurmRefused, match="job 7 was pinned to GPUs 2,3, and this Slurm gives"):
        check_repinnable(SEVEN, pinned, placement("n1", 4, 5), OLD)


def test_a_job_without_gpus_is_never_pinned() -> None:
    with pytest.raises(SlurmRefused, match="job 7 asks for no GPUs"):
        pin_argv(SEVEN, detail(tres={"CpusPerTres": "gres/gpu:4"}), placement("n1", 0), NEW)


@pytest.mark.parametrize("traits", [OLD, NEW], ids=["22.05", "24.11"])
@pytest.mark.parametrize("field", ["TresPerJob", "TresPerTask", "TresPerNode"])
def test_a_job_of_srun_is_pinned_where_its_step_does_not_read_it(
    field: str, traits: Traits
) -> None:
    job = detail(tres={field: f"{traits.gres_prefix}gpu:2"}, is_batch=False)

    update = values(pin_argv(SEVEN, job, placement("n1", 2, 3), traits))

    gpus = ",".join(f"{traits.gres_prefix}gpu:g{index}:1" for index in (2, 3))
    per_job = traits is NEW or field == "TresPerNode"
    expected = (gpus, "") if per_job else ("", gpus)
    assert (update["TresPerJob"], update["TresPerNode"]) == expected


def test_an_unpinned_job_asks_again_for_what_its_user_asked_for() -> None:
    job = detail(tres={"TresPerNode": "gres/gpu:g2:1"}, admin_comment=PINNED)

    update = values(unpin_argv(SEVEN, job, NEW, 60))

    assert update["TresPerJob"] == "gres/gpu:2"
    assert update["TresPerNode"] == ""
    assert update["ReqNodeList"] == "n1"
    assert update["StartTime"] == "now+60"


def test_a_release_that_cannot_take_types_back_keeps_them_but_frees_the_nodes() -> None:
    job = detail(
        tres={"TresPerNode": "gres:gpu:g2:1"}, admin_comment="roost:lease was=TresPerJob:gres:gpu:2"
    )
    update = values(unpin_argv(SEVEN, job, OLD, 60))
    assert not [name for name in update if name.startswith("Tres")]
    assert update["ReqNodeList"] == ""


def test_a_job_that_never_was_pinned_keeps_the_nodes_that_its_user_asked_for() -> None:
    """One that Slurm started by itself, and that was requeued: its request is given back too."""
    job = detail(tres={"TresPerNode": "gres/gpu:2"}, required_nodes="n[1-2]")
    update = values(unpin_argv(SEVEN, job, NEW, 60))
    assert update["ReqNodeList"] == "n[1-2]"
    assert not [name for name in update if name.startswith("Tres")]


def test_only_a_running_job_with_a_stamp_may_be_requeued() -> None:
    check_requeuable(SEVEN, detail(state=SlurmJobState.RUNNING, admin_comment="roost:lease"))
    for job, problem in (
        (None, "job 7 is gone, not running"),
        (detail(admin_comment="roost:lease"), "job 7 is pending, not running"),
        (detail(state=SlurmJobState.RUNNING), "job 7 was not placed by Roost"),
    ):
        with pytest.raises(SlurmRefused, match=problem):
            check_requeuable(SEVEN, job)


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        ([share("n2", 0, 1), share("n1", 0, 1)], None),
        ([share("n1", 0, 1)], "chosen n1:0,1 n2:0,1, allocated n1:0,1"),
        (
            [share("n1", 0, 1), share("n2", 2, 3)],
            "chosen n1:0,1 n2:0,1, allocated n1:0,1 n2:2,3",
        ),
        ([], "chosen n1:0,1 n2:0,1, allocated nothing"),
    ],
)
def test_an_allocation_is_compared_gpu_by_gpu_whatever_the_order_of_nodes(
    shares: list[Any], told: str | None
) -> None:
    assert difference(placement("n1,n2", 0, 1), shares) == told


TYPED = {"TresPerNode": "gres/gpu:g2:1,gres/gpu:g3:1"}
N1 = AllocatedNode(node="n1", gpu_indices=(2, 3), cpu_count=4, memory_bytes=1 << 30)


@pytest.mark.parametrize(
    ("changes", "pinned"),
    [
        ({"tres": TYPED, "required_nodes": "n1"}, True),
        ({"tres": TYPED, "required_nodes": "n2"}, False),
        ({"tres": TYPED, "required_nodes": "n[1-2]"}, False),
        ({"tres": {"TresPerNode": "gres/gpu:g2:1"}, "required_nodes": "n1"}, False),
        ({"tres": {"TresPerNode": "gres/gpu:2"}, "required_nodes": "n1"}, False),
        ({"tres": {}, "allocated": (N1,)}, True),  # what it holds counts, not what it asks for
        ({"tres": TYPED, "required_nodes": "n1", "allocated": (replace(N1, node="n2"),)}, False),
    ],
)
def test_a_job_is_pinned_when_it_holds_or_asks_for_exactly_the_placement(
    changes: dict[str, Any], pinned: bool
) -> None:
    assert is_pinned(detail(**changes), placement("n1", 2, 3)) is pinned


def test_shares_carry_gpus_cpus_and_memory() -> None:
    assert shares_of(detail(allocated=(N1,))) == (
        share("n1", 2, 3, cpu_count=4, memory_bytes=1 << 30),
    )


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"reason": "Resources", "admin_comment": "roost:lease", "name": "x"}, True),
        ({"excluded_nodes": "n1"}, False),
        ({"memory_per_cpu_bytes": 1}, False),
        ({"max_node_count": 1}, False),
        ({"is_exclusive": True}, False),
    ],
)
def test_a_request_changes_with_what_is_asked_for_and_not_with_what_is_said(
    changes: dict[str, Any], same: bool
) -> None:
    assert (asked(detail()) == asked(detail(**changes))) is same
