"""The monitor continues, whatever the driver does."""

import dataclasses
from collections.abc import Collection
from pathlib import Path

from roost_probe.driver.readings import DriverFacts, DriverLoad, GpuFacts, GpuLoad, JobMemory
from roost_probe.errors import DriverFault
from roost_probe.node.monitor import Monitor


class ScriptedDriver:
    """Answers what it is told to; an exception is raised."""

    def __init__(self, gpu_count: int = 2) -> None:
        gpus = tuple(
            GpuFacts(uuid=f"GPU-{i}", pci_bus_id=f"0000:1{i}:00.0", levels=(40,) * gpu_count)
            for i in range(gpu_count)
        )
        self.answer_facts: DriverFacts | DriverFault = DriverFacts(gpus=gpus)
        self.answer_load: DriverLoad | DriverFault = DriverLoad(
            at_s=0.0, gpus=(GpuLoad(),) * gpu_count
        )
        self.answer_jobs: JobMemory | DriverFault = JobMemory(gpus=(((7, 9, 0),),) * gpu_count)
        self.facts_count = self.jobs_count = 0

    async def facts(self) -> DriverFacts:
        self.facts_count += 1
        if isinstance(self.answer_facts, DriverFault):
            raise self.answer_facts
        return self.answer_facts

    async def load(self) -> DriverLoad:
        if isinstance(self.answer_load, DriverFault):
            raise self.answer_load
        return self.answer_load

    async def jobs(self, gpus: Collection[int]) -> JobMemory:
        self.jobs_count += 1
        if isinstance(self.answer_jobs, DriverFault):
            raise self.answer_jobs
        return self.answer_jobs

    async def close(self) -> None:
        return None


def make(driver: ScriptedDriver, tmp_path: Path) -> Monitor:
    return Monitor(driver, tmp_path, clock=lambda: 0.0)


async def test_without_a_driver_there_are_no_gpus_but_a_problem(tmp_path: Path) -> None:
    driver = ScriptedDriver()
    working, driver.answer_facts = driver.answer_facts, DriverFault("no driver; install it")
    monitor = make(driver, tmp_path)

    sample = await monitor.step()

    assert (sample.gpu_count, monitor.problems) == (0, ("no driver; install it",))
    driver.answer_facts = working
    assert (await monitor.step()).gpu_count == 2
    assert monitor.problems == ()


async def test_a_fault_is_news_once(tmp_path: Path) -> None:
    driver = ScriptedDriver()
    monitor = make(driver, tmp_path)
    await monitor.step()
    before, driver.answer_load = monitor.revision, DriverFault("hangs")

    samples = [await monitor.step() for _ in range(3)]

    assert monitor.revision == before + 1
    assert [sample.gpu_count for sample in samples] == [2, 2, 2]  # as in the Hello
    assert not any(sample.power_w.present_mask for sample in samples)


async def test_facts_are_read_seldom(tmp_path: Path) -> None:
    driver = ScriptedDriver()
    monitor = make(driver, tmp_path)

    for _ in range(5):
        await monitor.step()
    assert driver.facts_count == 1
    monitor.refresh()
    await monitor.step()
    assert driver.facts_count == 2


async def test_a_gpu_that_is_switched_to_mig_is_news_in_the_next_step(tmp_path: Path) -> None:
    driver = ScriptedDriver()
    monitor = make(driver, tmp_path)
    assert isinstance(driver.answer_facts, DriverFacts)
    off, gpus = driver.answer_facts, driver.answer_facts.gpus
    on = dataclasses.replace(gpus[1], mig_enabled=True)
    await monitor.step()
    before, driver.answer_facts = monitor.revision, dataclasses.replace(off, gpus=(gpus[0], on))
    driver.answer_load = DriverLoad(at_s=1.0, gpus=(GpuLoad(), GpuLoad(mig_enabled=True)))

    for _ in range(5):
        await monitor.step()

    assert [gpu.mig_enabled for gpu in monitor.topology.gpus] == [None, True]
    assert (monitor.revision, driver.facts_count) == (before + 1, 2)


async def test_a_lost_gpu_keeps_its_name_and_a_repair_is_counted(tmp_path: Path) -> None:
    driver = ScriptedDriver()
    monitor = make(driver, tmp_path)
    await monitor.step()
    assert isinstance(driver.answer_facts, DriverFacts)
    whole, gpus = driver.answer_facts, driver.answer_facts.gpus
    driver.answer_facts = dataclasses.replace(
        whole, gpus=(gpus[0], GpuFacts()), problems=("GPU 1 is lost",)
    )
    driver.answer_load = DriverLoad(at_s=1.0, gpus=(GpuLoad(), GpuLoad(lost=True)))

    lost = await monitor.step()
    await monitor.step()

    assert lost.lost_mask == 0b10
    assert [gpu.uuid for gpu in monitor.topology.gpus] == ["GPU-0", "GPU-1"]
    assert list(monitor.topology.problems) == ["GPU 1 is lost"]
    assert monitor.repair_count == 0
    driver.answer_facts = whole
    driver.answer_load = DriverLoad(at_s=2.0, gpus=(GpuLoad(), GpuLoad()))
    await monitor.step()
    await monitor.step()
    assert monitor.repair_count == 1
    assert list(monitor.topology.problems) == []


async def test_another_number_of_gpus_is_never_sent_before_its_hello(tmp_path: Path) -> None:
    driver = ScriptedDriver()
    monitor = make(driver, tmp_path)
    await monitor.step()
    smaller = ScriptedDriver(1)
    driver.answer_facts, driver.answer_load = smaller.answer_facts, smaller.answer_load

    mismatched = await monitor.step()
    assert (mismatched.gpu_count, len(monitor.topology.gpus)) == (2, 2)
    assert (await monitor.step()).gpu_count == 1
    assert len(monitor.topology.gpus) == 1


async def test_processes_are_read_where_roostd_wants_it(tmp_path: Path) -> None:
    driver = ScriptedDriver()
    monitor = make(driver, tmp_path)
    assert (await monitor.step()).process_mask == 0

    monitor.processes.set_interval(10.0)
    sample = await monitor.step()

    assert (sample.process_mask, len(sample.job_memory)) == (0b11, 2)
    assert driver.jobs_count == 1


async def test_a_driver_that_fails_at_processes_still_reports_loads(tmp_path: Path) -> None:
    driver = ScriptedDriver()
    monitor = make(driver, tmp_path)
    monitor.processes.set_interval(10.0)
    driver.answer_jobs = DriverFault("hangs")
    await monitor.step()
    before = monitor.revision

    sample = await monitor.step()

    assert (sample.gpu_count, sample.process_mask) == (2, 0)
    assert (driver.jobs_count, monitor.revision, monitor.fault) == (1, before, None)
