"""Memory of no Slurm job: what the driver says of free GPUs, the list of processes of held ones."""

import pytest
from tests.daemon.rpc.probes import hello, sample

from roost_engine.domain.model import JobId
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.foreign_memory import ForeignMemory, foreign_memory
from roostd.telemetry.job_memory import MOST_FOREIGN_BYTES
from roostd.telemetry.probe_messages import read_hello

GIB = 1 << 30
A, B = JobId("1"), JobId("5_2")
JOB_IDS = {7: B}
ANN = 1001


def found(
    *entries: tuple[int, int] | tuple[int, int, int],
    holders: tuple[JobId, ...] = (),
    used_bytes: int | None = None,
    mig: bool = False,
) -> ForeignMemory | None:
    """Return the memory of no job on gres GPU 0, which is NVML's GPU 1.

    Args:
        entries: (Slurm's number of a job, bytes, user), where the probe says whose they are.
        holders: jobs that hold the GPU.
        used_bytes: on the GPU, as the driver says; the other GPUs are full.
        mig: whether the GPU is in MIG mode.
    """
    greeting = hello(minors=[1, 0, 2, 3])
    greeting.gpus[1].mig_enabled = mig
    board = ProbeBoard(lambda: 0.0, lambda event: None)
    report = board.apply_hello(read_hello(greeting), object())
    message = sample()
    message.job_memory.add(gpu_index=0, slurm_job_id=0, used_bytes=70 * GIB)
    for number, used, *user in entries:
        message.job_memory.add(
            gpu_index=1, slurm_job_id=number, used_bytes=used, user_id=user[0] if user else None
        )
    message.process_mask = 0b11 if entries else 0b01
    if used_bytes is not None:
        message.memory_used_bytes.present_mask = 0b1111
        message.memory_used_bytes.values.extend([70 * GIB, used_bytes, 70 * GIB, 70 * GIB])
    board.apply_sample(report, message, is_checked=True)
    [first, *_] = foreign_memory(report, [holders, None, None, None], JOB_IDS)
    return first


def test_all_memory_of_a_free_gpu_is_foreign_but_a_little() -> None:
    assert found(used_bytes=5 * GIB) == ForeignMemory(5 * GIB)
    # A display server, an MPS server or DCGM's profiler.
    assert found(used_bytes=MOST_FOREIGN_BYTES) is None
    assert found(used_bytes=0) is None
    assert found() is None  # the driver does not say


def test_the_process_list_tells_whose_it_is() -> None:
    assert found((0, 4 * GIB, ANN), used_bytes=5 * GIB) == ForeignMemory(5 * GIB, ANN)
    left = found((0, GIB, 0), (9, 4 * GIB, ANN), used_bytes=5 * GIB)
    assert left == ForeignMemory(5 * GIB, ANN, 9)
    assert found((0, 4 * GIB), used_bytes=5 * GIB) == ForeignMemory(5 * GIB)  # an older probe


def test_what_a_job_uses_of_its_own_gpu_is_not_foreign() -> None:
    assert found((1, 40 * GIB, ANN), holders=(A,), used_bytes=41 * GIB) is None
    assert found((1, 9 * GIB), (7, 9 * GIB), holders=(A, B), used_bytes=19 * GIB) is None


def test_beside_a_job_the_processes_of_others_count() -> None:
    assert found((1, 9 * GIB), (0, 3 * GIB, ANN), holders=(A,)) == ForeignMemory(3 * GIB, ANN)
    assert found((9, 3 * GIB, ANN), holders=(A,)) == ForeignMemory(3 * GIB, ANN, 9)
    assert found((1, 9 * GIB), (0, MOST_FOREIGN_BYTES), holders=(A,)) is None  # an MPS server


@pytest.mark.parametrize("holders", [(A,), (A, B)])
def test_where_no_process_is_of_a_job_the_list_does_not_tell_them_apart(
    holders: tuple[JobId, ...],
) -> None:
    assert found((0, 9 * GIB, ANN), holders=holders, used_bytes=9 * GIB) is None
    assert found(holders=holders, used_bytes=9 * GIB) is None  # no list


def test_a_gpu_in_mig_mode_and_one_that_no_probe_knows_say_nothing() -> None:
    assert found(used_bytes=5 * GIB, mig=True) is None
    board = ProbeBoard(lambda: 0.0, lambda event: None)
    report = board.apply_hello(read_hello(hello()), object())
    assert foreign_memory(report, [()], {}) == [None]  # no sample yet
    board.apply_sample(report, sample(), is_checked=True)
    assert foreign_memory(report, [()] * 5, {}) == [None] * 5  # the probe sees four
