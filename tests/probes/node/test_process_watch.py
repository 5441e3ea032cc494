"""Processes are read where roostd asks for it, often only of GPUs that two jobs use."""

from roost_probe.driver.readings import JobMemory
from roost_probe.node.process_watch import PAUSE_S, SELDOM, ProcessWatch
from roost_proto.v1 import telemetry_pb2 as pb

ALONE, SHARED = ((7, 100, 1001),), ((7, 100, 1001), (8, 50, 0))


def watching() -> ProcessWatch:
    watch = ProcessWatch()
    watch.set_interval(10.0)
    return watch


def added(watch: ProcessWatch, lost_mask: int = 0) -> pb.Sample:
    sample = pb.Sample(gpu_count=2, lost_mask=lost_mask)
    watch.add_to(sample)
    return sample


def entries(sample: pb.Sample) -> list[tuple[int, int, int, int]]:
    return [
        (one.gpu_index, one.slurm_job_id, one.used_bytes, one.user_id) for one in sample.job_memory
    ]


def test_without_being_asked_it_reads_nothing() -> None:
    watch = ProcessWatch()
    assert watch.due(8, 0.0) == ()
    watch.set_interval(0.0)
    assert watch.due(8, 0.0) == ()


def test_gpus_that_jobs_share_are_read_often_and_the_others_seldom() -> None:
    watch, read = watching(), list[tuple[int, ...]]()
    for second in range(10 * SELDOM + 1):
        if asked := watch.due(2, float(second)):
            read.append(asked)
            watch.note(asked, JobMemory(gpus=(ALONE, SHARED)))
    assert read == [(0, 1), *[(1,)] * (SELDOM - 1), (0, 1)]


def test_each_sample_repeats_what_was_read_last() -> None:
    watch = watching()
    watch.note(watch.due(2, 0.0), JobMemory(gpus=((), SHARED)))
    for _ in range(2):
        sample = added(watch)
        assert sample.process_mask == 0b11
        assert entries(sample) == [(1, 7, 100, 1001), (1, 8, 50, 0)]
    assert added(watch, lost_mask=0b10).process_mask == 0b01


def test_what_could_not_be_read_is_absent_and_asked_again_soon() -> None:
    watch = watching()
    watch.note(watch.due(2, 0.0), JobMemory(gpus=(ALONE, SHARED)))
    assert watch.due(2, 10.0) == (1,)
    watch.note((1,), JobMemory(gpus=(None, None)))
    assert added(watch).process_mask == 0b01
    assert watch.due(2, 20.0) == (1,)
    watch.note((1,), JobMemory(gpus=(None, ((7, 1 << 60, 1001),))))
    assert added(watch).process_mask == 0b01


def test_after_a_failure_it_pauses() -> None:
    watch = watching()
    watch.note(watch.due(2, 0.0), JobMemory(gpus=(ALONE, SHARED)))
    watch.pause(1.0)
    assert added(watch).process_mask == 0
    assert watch.due(2, PAUSE_S) == ()
    assert watch.due(2, PAUSE_S + 1.0) != ()


def test_it_forgets_what_it_read_once_roostd_does_not_want_it() -> None:
    watch = watching()
    watch.note(watch.due(2, 0.0), JobMemory(gpus=(ALONE, SHARED)))
    watch.set_interval(0.0)
    assert added(watch).process_mask == 0
