"""Nodes without any file of Slurm's, which ask slurmctld for all of them (configless mode)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.ledger import until, until_exists
from tests.e2e.site.bed import assert_runs, cleared_afterwards, site, told

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    with site(
        is_configless=True,
        extra_lines=("Include roost.conf",),
        extra_files={"roost.conf": "MinJobAge=301\n"},
    ) as stack:
        for node in stack.nodes:  # so that Prolog asks Slurm for the job's GPUs, if it needs to
            (stack.folder / "nodes" / node.name / "job-map").mkdir()
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def test_hooks_and_placement_need_no_file_on_the_nodes(stack: Stack, tmp_path: Path) -> None:
    is_seen = tmp_path / "seen"
    script = f"srun printenv SLURM_CONF\n{until_exists(is_seen)}"
    job_id = stack.slurm.submit("-N2", "--gpus-per-node=2", script=script)
    until(lambda: bool(told(stack, job_id).allocated), "roostd sees it run")
    is_seen.touch()
    until(lambda: stack.slurm.state(job_id) == "COMPLETED", "it has ended")
    places = [(place.node, *place.gpu_indices) for place in told(stack, job_id).allocated]
    assert places == [("n1", 0, 1), ("n2", 0, 1)]
    confs = stack.slurm.output(job_id).splitlines()
    assert sorted(confs) == [
        f"{stack.slurm.folder.root}/spool/{n}/conf-cache/slurm.conf" for n in ("n1", "n2")
    ]


def test_the_job_map_names_the_allocated_gpus(stack: Stack) -> None:
    job_id = stack.slurm.submit("--gres=gpu:g5:1,gpu:g6:1", "-w", "n2")  # left to Slurm
    assert_runs(stack, job_id)
    folder = stack.folder / "nodes" / "n2" / "job-map"
    until(lambda: sorted(path.name for path in folder.iterdir()) == ["5", "6"], "it is mapped")
    assert (folder / "5").read_text().strip() == job_id


def test_roosts_lines_reach_the_nodes(stack: Stack) -> None:
    cache = stack.slurm.folder.root / "spool" / "n1" / "conf-cache"
    sent = {path.name for path in cache.iterdir()}
    assert {"slurm.conf", "gres.conf", "roost.conf", "cli_filter.lua"} <= sent
    assert "job_submit.lua" not in sent
