"""What jobs use of a GPU that they share: Slurm says who holds it, the probe how much."""

from tests.daemon.rpc.probes import hello, sample

from roost_engine.domain.model import JobId
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.job_memory import MOST_FOREIGN_BYTES, used_by_holders
from roostd.telemetry.probe_messages import read_hello

GIB = 1 << 30
A, B = JobId("1"), JobId("5_2")
JOB_IDS = {7: B}


def used(*entries: tuple[int, int, int], mask: int = 0b10) -> dict[JobId, int] | None:
    """Return what A and B use of gres GPU 0, which is NVML's GPU 1."""
    board = ProbeBoard(lambda: 0.0, lambda event: None)
    report = board.apply_hello(read_hello(hello(minors=[1, 0, 2, 3])), object())
    message = sample()
    message.process_mask = mask
    for gpu, number, used_bytes in entries:
        message.job_memory.add(gpu_index=gpu, slurm_job_id=number, used_bytes=used_bytes)
    board.apply_sample(report, message, is_checked=True)
    return used_by_holders(report, 0, (A, B), JOB_IDS)


def test_jobs_are_found_by_gres_index_and_slurm_s_number() -> None:
    assert used((1, 1, 3 * GIB), (1, 7, 5 * GIB), mask=0b11) == {A: 3 * GIB, B: 5 * GIB}


def test_a_job_without_processes_on_a_listed_gpu_uses_nothing() -> None:
    assert used((1, 7, 5 * GIB)) == {A: 0, B: 5 * GIB}
    assert used((1, 7, 5 * GIB), (1, 0, MOST_FOREIGN_BYTES)) == {A: 0, B: 5 * GIB}


def test_a_gpu_that_was_not_listed_or_has_much_that_is_nobody_s_is_not_known() -> None:
    assert used(mask=0b1) is None
    assert used((1, 7, 5 * GIB), (1, 0, MOST_FOREIGN_BYTES + 1)) is None
    assert used((1, 7, 5 * GIB), (1, 99, MOST_FOREIGN_BYTES + 1)) is None
    assert used((1, 7, 50 * GIB), (1, 1, 31 * GIB)) is None  # of 80 GiB
