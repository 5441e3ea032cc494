import pytest

from roost_engine.testing import builders
from roostd.testing.slurm_stand_in_job import (
    FreeNode,
    StandInJob,
    Wanted,
    allocate,
    detail,
    free_on,
    queued,
)
from roostd.testing.slurm_stand_in_submission import Submission, jobs_of


def job(**asked: object) -> StandInJob:
    submission: Submission = {**asked}  # type: ignore[typeddict-item]  # keys are checked by jobs_of
    (made,) = jobs_of(submission, 7, 1000.0, "gres:", None)
    return made


@pytest.mark.parametrize(
    ("asked", "node_count", "gpus_per_node"),
    [
        ({"gpus_per_node": 2}, 2, 2),
        ({"gpus": 4}, 2, 2),
        ({"gpus": 4}, 1, 4),
        ({"gpus_per_task": 2, "tasks": 2}, 1, 4),
        ({"gpus": 3}, 2, None),
    ],
)
def test_a_request_divides_evenly_among_nodes_or_not_at_all(
    asked: dict[str, object], node_count: int, gpus_per_node: int | None
) -> None:
    wanted = Wanted.of(job(**asked), node_count)
    assert (None if wanted is None else wanted.gpu_count) == gpus_per_node


def test_a_job_gets_the_lowest_free_gpus_of_a_node_that_fits() -> None:
    asks = job(gpus_per_node=2, cpus_per_task=4)
    wanted = Wanted.of(asks, 1)
    assert wanted is not None
    spec = builders.node("n1", 4)

    got = wanted.on(spec, FreeNode({1, 2, 3}, 8, 0), asks)

    assert got is not None
    assert (got.node, got.gpu_indices, got.cpu_count) == ("n1", (1, 2), 4)
    assert wanted.on(spec, FreeNode({1}, 8, 0), asks) is None
    assert wanted.on(spec, FreeNode({1, 2}, 3, 0), asks) is None


def test_an_excluded_node_does_not_fit() -> None:
    asks = job(gpus_per_node=1, exclude="n1")
    wanted = Wanted.of(asks, 1)
    assert wanted is not None
    assert wanted.on(builders.node("n1", 4), FreeNode({0}, 8, 0), asks) is None


def test_a_job_gets_the_nodes_that_it_names_and_the_first_others() -> None:
    nodes = {spec.name: spec for spec in (builders.node(f"n{n}", 8) for n in range(1, 5))}

    chosen = allocate(job(gpus_per_node=8, nodes=(3, 3), node_list="n4"), nodes, free_on(nodes, ()))

    assert chosen is not None
    assert [node.node for node in chosen] == ["n1", "n2", "n4"]


@pytest.mark.timeout(10)  # when every set of nodes was tried, there were a million of them
def test_a_job_waits_for_a_full_node_without_trying_every_set_of_others() -> None:
    specs = [builders.node(f"n{number}", 8) for number in range(100)]
    nodes = {spec.name: spec for spec in specs}
    free = free_on(nodes, ())
    free[specs[7].name].gpus.clear()

    assert allocate(job(gpus=8, node_list="n7"), nodes, free) is None


def test_squeue_and_scontrol_show_the_same_job() -> None:
    asks = job(gpus_per_node=2, node_list="n3", comment="roost:model=bert", name="train")
    shown, details = queued(asks), detail(asks)
    assert (shown.number, shown.job_ids, shown.required_nodes) == (7, ("7",), "n3")
    assert (details.number, details.comment, details.name) == (7, "roost:model=bert", "train")
    assert dict(shown.tres) == details.tres == {"TresPerNode": "gres:gpu:2"}
