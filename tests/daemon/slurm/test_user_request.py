"""A user's request: how its GPUs, CPUs and nodes divide, before and after a pin."""

from typing import Any

import pytest
from tests.daemon.slurm.test_queue import detail

from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import Stamp
from roostd.slurm.user_request import UserRequest


def asks(*tres: tuple[str, str], **fields: Any) -> UserRequest:
    return UserRequest.of(QueuedJob(number=1, tres=tres, **fields), None)


@pytest.mark.parametrize(
    ("request_", "gpu_counts"),
    [
        (asks(("TresPerJob", "gres:gpu:12")), {1: 12, 2: 6, 3: 4, 4: 3, 5: 0}),
        (asks(("TresPerNode", "gres:gpu:3")), {1: 3, 2: 3, 3: 3, 4: 3, 5: 3}),
        (asks(("TresPerSocket", "gres:gpu:3")), {1: 3, 2: 3, 3: 3, 4: 3, 5: 3}),
        (
            asks(("TresPerTask", "gres:gpu:2"), task_count=6, tasks_per_node=2),
            {1: 12, 2: 0, 3: 4, 4: 0, 5: 0},
        ),
        (asks(("TresPerTask", "gres:gpu:2"), task_count=6), {1: 12, 2: 0, 3: 0, 4: 0, 5: 0}),
    ],
)
def test_its_gpus_divide_among_some_numbers_of_nodes(
    request_: UserRequest, gpu_counts: dict[int, int]
) -> None:
    assert {count: request_.gpus_per_node(count) for count in gpu_counts} == gpu_counts
    fitting = [count for count, gpus in gpu_counts.items() if gpus]
    assert list(request_.node_counts(range(1, 6))) == fitting


def test_a_wide_range_of_nodes_is_not_walked() -> None:
    wide = range(1, 1_000_000_000)
    assert list(asks(("TresPerJob", "gres:gpu:6")).node_counts(wide)) == [1, 2, 3, 6]


def test_without_an_upper_end_a_count_for_the_whole_job_may_spread() -> None:
    for tres, most in ((("TresPerJob", "gres:gpu:8"), 8), (("TresPerNode", "gres:gpu:8"), 2)):
        found = asks(tres).allowed_node_counts(detail(1, min_node_count=2, max_node_count=None))
        assert (found[0], found[-1]) == (2, most)


def test_of_a_pinned_job_the_request_before_the_pin_counts() -> None:
    was = (("TresPerJob", "gres:gpu:4"), ("ReqNodeList", "n[1-4]"), ("NumNodes", "1-2"))
    found = asks(
        ("TresPerNode", "gres:gpu:g0:1,gres:gpu:g1:1"),
        required_nodes="n2",
        admin_comment=str(Stamp().pinned_from(was)),
    )
    assert (found.gpu_count, found.kinds, found.required_nodes) == (4, frozenset(), "n[1-4]")
    assert found.allowed_node_counts(detail(1, min_node_count=1)) == range(1, 3)


def test_cpus_are_those_of_the_tasks_or_of_the_gpus_whichever_are_more() -> None:
    job = QueuedJob(number=1, cpu_count=9)
    plain = asks(("TresPerJob", "gres:gpu:4"))
    assert [plain.cpus_per_node(job, nodes, 4 // nodes) for nodes in (1, 2)] == [9, 5]
    by_gpu = asks(("TresPerJob", "gres:gpu:4"), ("CpusPerTres", "gres:gpu:3"))
    assert [by_gpu.cpus_per_node(job, nodes, 4 // nodes) for nodes in (1, 2)] == [12, 6]


def test_a_request_that_slurm_does_not_write_so_is_not_readable() -> None:
    assert asks(("TresPerNode", "gres:gpu:2,gres:nvme:1")).is_readable
    assert asks(("TresPerNode", "gres:gpu:2,gres:nvme:1")).others == {"nvme"}
    assert not asks(("TresPerNode", "gres:gpu::")).is_readable
