"""Users name a GPU model wherever Slurm lets them, and their steps find the GPUs."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.e2e.ledger import until
from tests.e2e.site.bed import NODES, cleared_afterwards, jobs, occupy, site

from roost_demo.stack import Stack

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

FORMS = (
    ("--gpus=h100:2",),
    ("--gres=gpu:h100:2",),
    ("--gpus-per-node=h100:2",),
    ("-n2", "--gpus-per-task=h100:1"),
)
UNTYPED = (("--gpus=2",), ("-n2", "--gpus-per-task=1"), ("-N2", "--gpus=4"))
SHOW = 'echo "gpus ${SLURM_STEP_GPUS:-$CUDA_VISIBLE_DEVICES}"'


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    nodes = (NODES[0], replace(NODES[1], features=("h100",)))
    with site(nodes=nodes, model_names=("h100",)) as stack:
        yield stack


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared_afterwards(cluster):
        yield cluster


def assert_two_gpus(told: str) -> None:
    seen = {line.removeprefix("gpus ") for line in told.splitlines() if line.startswith("gpus ")}
    gpus = {gpu for line in seen for gpu in line.split(",")}
    assert len(gpus) == 2, told


@pytest.mark.parametrize("form", [*FORMS, *UNTYPED], ids=" ".join)
def test_srun_alone(stack: Stack, form: tuple[str, ...]) -> None:
    assert_two_gpus(stack.slurm.run("srun", *form, "sh", "-c", SHOW, timeout_s=60.0))


def test_srun_that_waits_for_gpus(stack: Stack) -> None:
    slurm = stack.slurm
    holders = [occupy(stack, "n2", range(first, first + 4)) for first in (0, 4)]
    argv = ("srun", "--gpus=h100:2", "sh", "-c", SHOW)
    with subprocess.Popen(argv, env=slurm.env, stdout=subprocess.PIPE, text=True) as waiting:
        until(lambda: len(jobs(slurm)) == 3, "it waits")
        time.sleep(3.0)  # a job is pinned to busy GPUs meanwhile, from 24.11 on
        slurm.run("scancel", holders[1])
        assert_two_gpus(waiting.communicate(timeout=60.0)[0])


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_srun_in_salloc(stack: Stack, form: tuple[str, ...]) -> None:
    argv = ("salloc", "-Q", *form, "srun", "sh", "-c", SHOW)
    assert_two_gpus(stack.slurm.run(*argv, timeout_s=60.0))


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
@pytest.mark.parametrize("typed_step", [False, True], ids=["plain step", "typed step"])
def test_srun_in_sbatch(stack: Stack, form: tuple[str, ...], typed_step: bool) -> None:
    step = " ".join(form) if typed_step else ""
    job_id = stack.slurm.submit(*form, script=f"srun {step} sh -c '{SHOW}'")
    state = stack.slurm.wait_for_state(job_id, "COMPLETED", "FAILED", timeout_s=60.0)
    assert state == "COMPLETED", stack.slurm.output(job_id)
    assert_two_gpus(stack.slurm.output(job_id))
