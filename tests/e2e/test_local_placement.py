"""Real sbatch, slurmctld, probes and roostd on this machine: jobs get exactly what was chosen."""

import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from tests.conftest import missing
from tests.e2e.ledger import (
    assert_all_completed,
    assert_none_twice,
    cleared,
    outcomes,
    planned,
    submit,
    until,
    until_exists,
    wait_until_over,
)

from roost_demo.stack import NodeKind, Stack
from roost_probe.testing.description import GpuSettings
from roost_proto.v1 import operator_pb2
from roost_sim.replays.recording import ModelShelf, Recording
from roost_sim.replays.replay import replay
from roost_slurm.testing.availability import LocalSlurmUnavailable

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

LEASE_S = 120  # longer than any wait below: no job starts because its lease runs out
NODES = (
    NodeKind(name="n1", topology="bridges8", features=("a100",)),
    NodeKind(name="n2", topology="bridges8", features=("a100",)),
    NodeKind(name="n3", topology="cube8"),
    NodeKind(name="n4", topology="nvswitch8", features=("h100",)),
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    try:
        with Stack(NODES, model_names=("a100", "h100"), lease_s=LEASE_S) as running:
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def stack(cluster: Stack) -> Iterator[Stack]:
    with cleared(cluster):
        yield cluster


@pytest.mark.parametrize(
    ("options", "gpu_count"),
    [
        (("--gres=gpu:4",), 4),
        (("--gpus=2",), 2),
        (("--gpus-per-node=3", "--nodes=1"), 3),
        (("--ntasks=2", "--gpus-per-task=1", "--nodes=1"), 2),
        (("--gpus-per-socket=2", "--sockets-per-node=1", "--nodes=1"), 2),
        (("--gres=gpu:a100:2",), 2),
        (("--gpus=h100:8",), 8),
        (("--gpus=16",), 16),
        (("--nodes=2", "--gres=gpu:8"), 16),
        (("--nodes=2", "--gpus-per-node=4"), 8),
        (("--gpus=4", "--cpus-per-gpu=2"), 4),
        (("--gpus=2", "--mem-per-gpu=100M"), 2),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else str(value),
)
def test_each_way_to_ask_gets_exactly_the_chosen_gpus(
    stack: Stack, options: tuple[str, ...], gpu_count: int
) -> None:
    job_id = submit(stack.slurm, *options, command="srun true")
    wait_until_over(stack.slurm, [job_id], 60.0)
    found = assert_all_completed(stack.slurm, {job_id: gpu_count})
    assert found[job_id].gpus == planned(stack, job_id)


@pytest.mark.parametrize(
    "command",
    [
        ("srun", "-C", "h100", "--gpus=2"),
        ("salloc", "-C", "h100", "--gpus=2", "srun"),
        ("salloc", "--gres=gpu:h100:2", "srun"),
    ],
    ids=" ".join,
)
def test_an_interactive_job_gets_exactly_the_chosen_gpus(
    stack: Stack, command: tuple[str, ...]
) -> None:
    say = "echo $SLURM_JOB_ID $SLURM_STEP_GPUS"
    job_id, gpus = stack.slurm.run(*command, "sh", "-c", say).split()
    wait_until_over(stack.slurm, [job_id], 60.0)
    assert {"n4": tuple(map(int, gpus.split(",")))} == planned(stack, job_id)


def test_each_task_of_an_array_is_placed_on_its_own(stack: Stack) -> None:
    array = submit(stack.slurm, "--array=0-5%3", "--gres=gpu:2", command="sleep 0.2")
    deadline_s = time.monotonic() + 60.0
    while len(states := array_states(stack, array)) < 6 or set(states.values()) != {"COMPLETED"}:
        assert time.monotonic() < deadline_s, states
        time.sleep(0.2)
    numbers = stack.slurm.run("squeue", "-h", "-t", "all", "-j", array, "-o", "%A %K").split()
    found = outcomes(stack.slurm, numbers[::2])
    for number, task in zip(numbers[::2], numbers[1::2], strict=True):
        assert found[number].gpus == planned(stack, f"{array}_{task}")
    assert_none_twice(found)


def array_states(stack: Stack, array: str) -> dict[str, str]:
    answer = stack.slurm.run("squeue", "-h", "-r", "-t", "all", "-j", array, "-o", "%K %T")
    return dict(line.split() for line in answer.splitlines())


def test_honours_node_lists(stack: Stack) -> None:
    wanted = submit(stack.slurm, "--nodelist=n3", "--gres=gpu:2")
    other = submit(stack.slurm, "--exclude=n1,n2,n4", "--gres=gpu:1")
    wait_until_over(stack.slurm, [wanted, other], 60.0)
    found = outcomes(stack.slurm, [wanted, other])
    assert set(found[wanted].gpus) == set(found[other].gpus) == {"n3"}
    assert found[wanted].gpus == planned(stack, wanted)


def test_never_starts_a_job_before_the_begin_its_user_asked_for(stack: Stack) -> None:
    began_s = time.time()
    job_id = submit(stack.slurm, "--begin=now+4", "--gres=gpu:1")
    wait_until_over(stack.slurm, [job_id], 60.0)
    outcome = outcomes(stack.slurm, [job_id])[job_id]
    assert outcome.began_s >= int(began_s) + 4
    assert outcome.gpus == planned(stack, job_id)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--exclusive", "--gres=gpu:1"), "exclusive"),
        (("--ntasks=2",), "GPU"),
        (("--gres=gpu:g3",), "names its GPUs itself: g3"),
        (("--gres=gpu:1", ":", "--gres=gpu:1"), "heterogeneous"),
        (("--gpus=1", "--constraint=a100|h100"), "more than a list of features"),
    ],
)
def test_leaves_to_slurm_what_it_cannot_pin_and_says_why(
    stack: Stack, tmp_path: Path, options: tuple[str, ...], word: str
) -> None:
    is_seen = tmp_path / "seen"
    job_id = submit(stack.slurm, *options, command=until_exists(is_seen))
    stack.slurm.wait_for_state(job_id, "RUNNING")
    until(lambda: word in explained(stack, job_id).reason, "roostd says why")
    assert not explained(stack, job_id).planned
    is_seen.touch()
    wait_until_over(stack.slurm, [job_id], 60.0)
    assert outcomes(stack.slurm, [job_id])[job_id].state == "COMPLETED"


def explained(stack: Stack, job_id: str) -> operator_pb2.Job:
    """What roostd tells of a job; empty until roostd knows it."""
    try:
        request = operator_pb2.ExplainJobRequest(job_id=job_id)
        return stack.operator().ExplainJob(request, timeout=60.0).job
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.NOT_FOUND:
            raise
        return operator_pb2.Job()


def test_prefers_the_quieter_of_equal_places(stack: Stack) -> None:
    noisy = GpuSettings(sm_frac=0.9, memory_activity_frac=0.8)
    quiet = GpuSettings(sm_frac=0.0, memory_activity_frac=0.0)
    try:
        for name, other in (("n1", "n2"), ("n2", "n1")):
            for gpu in range(8):
                stack.drivers[name].set(gpu, noisy)
                stack.drivers[other].set(gpu, quiet)
            wait_for_load(stack, name, other)
            job_id = submit(stack.slurm, "--gres=gpu:a100:2")
            wait_until_over(stack.slurm, [job_id], 60.0)
            assert set(planned(stack, job_id)) == {other}
    finally:
        for name in ("n1", "n2"):
            for gpu in range(8):
                stack.drivers[name].set(gpu, quiet)


def wait_for_load(stack: Stack, noisy: str, quiet: str) -> None:
    deadline_s = time.monotonic() + 60.0
    while not (load(stack, noisy) > 0.8 and load(stack, quiet) < 0.1):
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def load(stack: Stack, name: str) -> float:
    node = stack.operator().GetNode(operator_pb2.GetNodeRequest(name=name), timeout=60.0)
    return sum(gpu.sm_frac for gpu in node.gpus) / len(node.gpus)


def test_gives_no_job_a_gpu_that_fell_off_the_bus(stack: Stack) -> None:
    stack.drivers["n3"].lose(0)
    try:
        deadline_s = time.monotonic() + 60.0
        while not gpu_fault(stack, "n3", 0):
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        job_id = submit(stack.slurm, "--nodelist=n3", "--gres=gpu:7")
        wait_until_over(stack.slurm, [job_id], 60.0)
        assert outcomes(stack.slurm, [job_id])[job_id].gpus == {"n3": (1, 2, 3, 4, 5, 6, 7)}
    finally:
        stack.drivers["n3"].restore(0)


def gpu_fault(stack: Stack, name: str, gpu: int) -> str:
    node = stack.operator().GetNode(operator_pb2.GetNodeRequest(name=name), timeout=60.0)
    return node.gpus[gpu].fault


def test_goes_on_without_a_probe(stack: Stack) -> None:
    stack.stop_probe("n4")
    try:
        job_id = submit(stack.slurm, "--nodelist=n4", "--gres=gpu:2")
        wait_until_over(stack.slurm, [job_id], 60.0)
        assert outcomes(stack.slurm, [job_id])[job_id].gpus == planned(stack, job_id)
    finally:
        stack.start_probe("n4")


def test_explains_a_job_that_waits(stack: Stack, tmp_path: Path) -> None:
    is_seen = tmp_path / "seen"
    filling = [submit(stack.slurm, "--gres=gpu:8", command=until_exists(is_seen)) for _ in range(4)]
    waiting = submit(stack.slurm, "--gres=gpu:8")
    # The latter where a pin can be taken back.
    reasons = ("waits for 8 GPUs on one node", "waits in Slurm for GPUs of ")
    until(
        lambda: any(reason in explained(stack, waiting).reason for reason in reasons),
        "roostd says what it waits for",
    )
    is_seen.touch()
    wait_until_over(stack.slurm, [*filling, waiting], 60.0)
    assert_all_completed(stack.slurm, dict.fromkeys([*filling, waiting], 8))


def test_the_journal_of_all_this_is_reproduced_while_it_is_written(stack: Stack) -> None:
    job_id = submit(stack.slurm, "--gres=gpu:2")
    wait_until_over(stack.slurm, [job_id], 60.0)
    with Recording(stack.folder / "state") as recording:
        found = replay(recording, ModelShelf(), lambda count: None)
    assert found.difference is None
    assert found.runs[0].policy.startswith("onnx:")
    assert found.action_count > 0
