"""A hundred jobs of a production trace, time-compressed, through real Slurm."""

import csv
import gzip
import os
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.e2e.ledger import (
    assert_all_completed,
    cleared,
    planned,
    submit,
    wait_until_over,
)

from roost_demo.stack import Stack
from roost_slurm.testing.availability import LocalSlurmUnavailable

pytestmark = [pytest.mark.slurm, pytest.mark.nvml, pytest.mark.data]

DATA = Path(os.environ.get("ROOST_DATA_DIR", Path(__file__).parents[3] / "shared" / "data"))
TRACE = DATA / "jobs" / "helios_venus_2020_aug.csv.gz"
JOB_COUNT = 100
LARGEST_GPU_COUNT = 16  # half of the cluster; the trace also has jobs of hundreds
SUBMIT_SPAN_S = 30.0
SECONDS_PER_TRACE_SECOND = 1 / 2000
LONGEST_S = 3.0


def trace_slice() -> list[tuple[float, float, int]]:
    """(submit_s, run_s, gpu_count) of the first jobs that fit."""
    with gzip.open(TRACE, "rt") as file:
        rows = (
            (float(row["submit_s"]), float(row["duration_s"]), int(row["num_gpus"]))
            for row in csv.DictReader(file)
        )
        jobs = list(islice((row for row in rows if 0 < row[2] <= LARGEST_GPU_COUNT), JOB_COUNT))
    first_s, last_s = jobs[0][0], jobs[-1][0]
    pace = SUBMIT_SPAN_S / (last_s - first_s)
    return [
        ((at_s - first_s) * pace, min(run_s * SECONDS_PER_TRACE_SECOND, LONGEST_S), gpu_count)
        for at_s, run_s, gpu_count in jobs
    ]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    if not TRACE.exists():
        pytest.skip(f"no {TRACE}; set ROOST_DATA_DIR to the folder that has jobs/")
    try:
        with Stack(lease_s=60) as running:
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared(cluster):
        yield cluster


@pytest.mark.timeout(280)
def test_a_hundred_production_jobs_run_where_roostd_put_them(stack: Stack) -> None:
    began_s, gpu_counts = time.monotonic(), dict[str, int]()
    for at_s, run_s, gpu_count in trace_slice():
        time.sleep(max(0.0, began_s + at_s - time.monotonic()))
        nodes, per_node = max(1, -(-gpu_count // 8)), gpu_count
        if nodes > 1:
            per_node = gpu_count // nodes
        options = (f"--nodes={nodes}", f"--gres=gpu:{per_node}")
        job_id = submit(stack.slurm, *options, command=f"sleep {run_s:.2f}")
        gpu_counts[job_id] = per_node * nodes
    wait_until_over(stack.slurm, gpu_counts, 180.0)
    assert len(gpu_counts) == JOB_COUNT
    found = assert_all_completed(stack.slurm, gpu_counts)
    wrong = {
        job_id: (found[job_id].gpus, plan)
        for job_id in gpu_counts
        if found[job_id].gpus != (plan := planned(stack, job_id))
    }
    assert not wrong
