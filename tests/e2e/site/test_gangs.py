"""A job of two nodes starts where Slurm would start it, whatever the indices of the free GPUs."""

from collections.abc import Iterator

import pytest
from tests.e2e.site.bed import assert_runs, cleared_afterwards, occupy, site

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site() as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


@pytest.mark.parametrize(
    "request_", [("-N2", "--gres=gpu:1"), ("-N2", "--gres=gpu:4"), ("-N2", "-n2", "--gpus=4")]
)
def test_two_nodes_need_no_common_free_index(stack: Stack, request_: tuple[str, ...]) -> None:
    occupy(stack, "n1", range(4))
    occupy(stack, "n2", range(4, 8))
    assert_runs(stack, stack.slurm.submit(*request_))
