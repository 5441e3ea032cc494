"""Users name GPU models as they did before GPUs had a type each: requests, limits and memory."""

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.conftest import missing
from tests.e2e.ledger import cleared, outcomes, planned, submit, wait_until_over

from roost_demo.stack import NodeKind, Stack
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.site_plan import AccountingPlan

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

MODELS = {"n1": "a100", "n2": "h100", "n3": "h100"}
NODES = tuple(
    NodeKind(name=name, topology="nvswitch8", features=(model,)) for name, model in MODELS.items()
)
ALICE = "games"  # a user that every Debian has
SAY = "echo $SLURM_JOB_ID $SLURMD_NODENAME $SLURM_STEP_GPUS"


def with_slurmdbd(plan: ClusterPlan) -> ClusterPlan:
    """Add a slurmdbd that tracks each model, and account for memory."""
    tres = ("gres/gpu", *(f"gres/{model}" for model in plan.counted_models))
    return replace(
        plan,
        select_parameters="CR_Core_Memory",
        accounting=AccountingPlan(tres=tres),
        extra_lines=("DefMemPerCPU=100",),
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    try:
        with Stack(
            NODES,
            model_names=("a100", "h100"),
            counts_models=True,
            amend_plan=with_slurmdbd,
        ) as running:
            accounting = running.slurm.accounting
            accounting.add_account("physics")
            accounting.add_qos("four", MaxTRESPerUser="gres/h100=4")
            accounting.add_user(ALICE, "physics", qos=("four",))
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared(cluster):
        yield cluster


@pytest.mark.parametrize("starter", [("srun",), ("salloc", "-Q")], ids=" ".join)
@pytest.mark.parametrize(
    "options",
    [
        ("--gpus=h100:2",),
        ("--gres=gpu:h100:2",),
        ("--gpus-per-node=h100:2",),
        ("--ntasks=1", "--gpus-per-task=h100:2"),
        ("--gpus=2", "-C", "h100"),
    ],
    ids=" ".join,
)
def test_an_interactive_job_names_its_model(
    stack: Stack, starter: tuple[str, ...], options: tuple[str, ...]
) -> None:
    inside = ("srun",) if starter[0] == "salloc" else ()
    answer = stack.slurm.run(*starter, *options, *inside, "sh", "-c", SAY)
    job_id, node, gpus = answer.split()
    assert MODELS[node] == "h100"
    wait_until_over(stack.slurm, [job_id], 90.0)
    assert {node: tuple(map(int, gpus.split(",")))} == planned(stack, job_id)


@pytest.mark.parametrize("job_option", ["--gpus=h100:2", "--gres=gpu:h100:2"])
@pytest.mark.parametrize("step_option", ["--gpus=h100:1", "--gres=gpu:h100:1", ""])
def test_a_step_of_a_batch_job_names_its_model(
    stack: Stack, job_option: str, step_option: str
) -> None:
    job_id = submit(stack.slurm, job_option, command=f"srun {step_option} sh -c '{SAY}'")
    wait_until_over(stack.slurm, [job_id], 90.0)
    output = stack.slurm.output(job_id)
    (gpus,) = re.findall(rf"^{job_id} n[23] (\S+)$", output, re.MULTILINE)
    (chosen,) = planned(stack, job_id).values()
    indices = tuple(map(int, gpus.split(",")))
    assert set(indices) <= set(chosen)
    assert len(indices) == (1 if step_option else 2)


def test_a_step_within_salloc_names_its_model(stack: Stack) -> None:
    step = ("srun", "--gpus=h100:1", "sh", "-c", SAY)
    _, node, gpus = stack.slurm.run("salloc", "-Q", "--gpus=h100:2", *step).split()
    assert MODELS[node] == "h100"
    assert len(gpus.split(",")) == 1


@pytest.mark.parametrize(
    ("options", "model", "gpu_count"),
    [
        ("--gres=gpu:h100:2", "h100", 2),
        ("--gpus=a100:2", "a100", 2),
        ("--gpus=2 -C h100", "h100", 2),
        ("-N2 --gpus-per-node=h100:3", "h100", 6),
        ("-N2 --gres=gpu:h100:2", "h100", 4),
        ("--gpus=h100:16", "h100", 16),
        ("-n2 -N1 --gpus-per-task=h100:2", "h100", 4),
        ("-n2 -N2 --ntasks-per-node=1 --gpus-per-task=h100:2", "h100", 4),
        ("-N1 --sockets-per-node=1 --gpus-per-socket=h100:2", "h100", 2),
        ("--gpus=h100:2 --ntasks-per-gpu=1", "h100", 2),
        ("--gpus=h100:4 --cpus-per-gpu=2", "h100", 4),
    ],
)
def test_a_pinned_job_counts_for_its_model(
    stack: Stack, options: str, model: str, gpu_count: int
) -> None:
    job_id = submit(stack.slurm, *options.split(), command="sleep 1")
    stack.slurm.wait_for_state(job_id, "RUNNING", "COMPLETED")
    allocated = allocated_tres(stack, job_id)
    wait_until_over(stack.slurm, [job_id], 90.0)
    assert outcomes(stack.slurm, [job_id])[job_id].gpus == planned(stack, job_id)
    assert allocated["gres/gpu"] == allocated[f"gres/{model}"] == str(gpu_count)
    assert not {"gres/a100", "gres/h100"} - {f"gres/{model}"} & set(allocated)


def allocated_tres(stack: Stack, job_id: str) -> dict[str, str]:
    # 22.05 prints TRES=, later releases AllocTRES=.
    shown = stack.slurm.show_job(job_id)
    found = re.findall(r" (?:Alloc)?TRES=(\S*)", shown)
    return dict(word.split("=") for word in found[-1].split(","))


def test_without_a_model_a_job_is_placed_and_counted_as_a_gpu_only(stack: Stack) -> None:
    job_id = submit(stack.slurm, "--gpus=2", command="sleep 1")
    stack.slurm.wait_for_state(job_id, "RUNNING", "COMPLETED")
    allocated = allocated_tres(stack, job_id)
    assert allocated["gres/gpu"] == "2"
    assert not {"gres/a100", "gres/h100"} & set(allocated)
    wait_until_over(stack.slurm, [job_id], 90.0)
    assert planned(stack, job_id)


def test_a_limit_on_a_model_holds_for_pinned_jobs(stack: Stack) -> None:
    slurm = stack.slurm
    first = [
        slurm.submit("-q", "four", "--gres=gpu:h100:2", user=ALICE),
        slurm.submit("-q", "four", "--gpus=h100:2", user=ALICE),
    ]
    for job_id in first:
        slurm.wait_for_state(job_id, "RUNNING")
        assert planned(stack, job_id)
    over = slurm.submit("-q", "four", "--gpus-per-node=h100:1", user=ALICE)
    other = slurm.submit("-q", "four", "--gpus=a100:4", user=ALICE)
    slurm.wait_for_state(other, "RUNNING")
    time.sleep(3.0)
    assert slurm.state(over) == "PENDING"
    slurm.run("scancel", first[0])
    slurm.wait_for_state(over, "RUNNING")
    slurm.run("scancel", *first, over, other)
    wait_until_over(slurm, [*first, over, other], 90.0)


@pytest.mark.parametrize(
    ("options", "gpu_count"),
    [
        ("--gpus=2", 2),
        ("--gres=gpu:2", 2),
        ("-N2 --gres=gpu:h100:2", 4),
        ("-n2 -N1 --gpus-per-task=1", 2),
        ("--gpus=2 --cpus-per-gpu=2", 2),
    ],
)
def test_memory_per_gpu_survives_a_pin(stack: Stack, options: str, gpu_count: int) -> None:
    job_id = submit(stack.slurm, "--mem-per-gpu=1000M", *options.split(), command="sleep 1")
    stack.slurm.wait_for_state(job_id, "RUNNING", "COMPLETED")
    memory = allocated_tres(stack, job_id)["mem"]
    wait_until_over(stack.slurm, [job_id], 90.0)
    assert planned(stack, job_id)
    assert memory == f"{gpu_count * 1000}M"
