"""A job of segments, to which no pin of Roost can keep: Slurm 24.11 shows them nowhere."""

import re
import subprocess
from collections.abc import Iterator

import pytest
from tests.e2e.site.bed import assert_runs, cleared_afterwards, site

from roost_demo.stack import Stack
from roost_slurm.testing.availability import SEARCH_PATH

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

BLOCKS = "BlockName=b1 Nodes=n1\nBlockName=b2 Nodes=n2\nBlockSizes=1\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    argv = ("env", f"PATH={SEARCH_PATH}", "slurmd", "-V")
    told = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    if re.search(r" 2[0-3]\.", told):
        pytest.skip("this release has no --segment")
    with site(
        extra_lines=("TopologyPlugin=topology/block",), extra_files={"topology.conf": BLOCKS}
    ) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def test_a_job_of_segments_starts_long_before_the_hand_over(stack: Stack) -> None:
    assert_runs(stack, stack.slurm.submit("-N2", "--gres=gpu:2", "--segment=1"))
