"""Jobs that have shards of a GPU, beside jobs that Roost gives whole ones."""

from collections.abc import Iterator

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import assert_runs, jobs, site, told

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

FREE = 8 - 1


@pytest.fixture
def stack() -> Iterator[Stack]:
    with site(shard_count=64) as stack:
        yield stack


def test_gpus_with_shards_are_no_place_for_a_whole_job(stack: Stack) -> None:
    """Pinned there it would not start, and on 22.05 could have no other GPUs for good."""
    slurm = stack.slurm
    sharing = [slurm.submit("-w", "n1", "--gres=shard:1") for _ in range(2)]
    assert_runs(stack, *sharing)
    wide = slurm.submit("-w", "n1", f"--gres=gpu:{FREE}")
    assert_runs(stack, wide)
    places = [(place.node, *place.gpu_indices) for place in told(stack, wide).planned]
    assert places == [("n1", *range(1, 8))]

    whole = slurm.submit("-w", "n1", "--gres=gpu:8")
    slurm.run("scancel", wide, sharing[0])
    until(lambda: {wide, sharing[0]}.isdisjoint(jobs(slurm)), "they have ended")
    assert slurm.state(whole) == "PENDING"
    slurm.run("scancel", sharing[1])
    assert_runs(stack, whole)
