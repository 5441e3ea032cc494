"""The work of one job runs in order, that of many at once, none beside a renewal."""

import asyncio
from functools import partial

from prometheus_client import CollectorRegistry

from roost_engine.domain.errors import SlurmTimeout
from roost_engine.domain.model import JobId
from roostd.app.actions.job_tasks import JobTasks
from roostd.ops.metrics import Metrics

ONE, TWO, THREE = JobId("1"), JobId("2"), JobId("3")


class Work:
    """Records what begins, and ends when it may."""

    def __init__(self, concurrent_count: int = 2) -> None:
        self.metrics = Metrics(CollectorRegistry())
        self.tasks = JobTasks(concurrent_count, self.metrics)
        self.begun: list[str] = []
        self.may_end = asyncio.Event()

    def add(self, job_id: JobId, name: str) -> None:
        self.tasks.add(job_id, partial(self._run, name))

    async def _run(self, name: str) -> None:
        self.begun.append(name)
        await self.may_end.wait()

    async def settle(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)


async def test_a_job_s_work_runs_in_order_and_some_jobs_at_once() -> None:
    work = Work()
    for job_id, name in ((ONE, "a"), (ONE, "b"), (TWO, "c"), (THREE, "d")):
        work.add(job_id, name)
    await work.settle()
    assert work.begun == ["a", "c"]
    assert (ONE in work.tasks, work.tasks.is_idle) == (True, False)
    work.may_end.set()
    await work.tasks.finish(1.0)
    assert sorted(work.begun) == ["a", "b", "c", "d"]
    assert work.begun.index("a") < work.begun.index("b")
    assert (ONE in work.tasks, work.tasks.is_idle) == (False, True)
    assert work.tasks.of(ONE) is None


async def test_work_waits_for_a_renewal_under_way() -> None:
    work = Work()
    async with work.tasks.renewal:
        work.add(ONE, "a")
        await work.settle()
        assert not work.begun
    await work.settle()
    assert work.begun == ["a"]
    work.may_end.set()
    await work.tasks.finish(1.0)


async def test_a_fault_of_one_job_is_counted_and_stops_no_other() -> None:
    work = Work()

    async def fail() -> None:
        raise ValueError("a bug")

    work.tasks.add(ONE, fail)
    work.add(TWO, "b")
    await work.settle()
    assert work.begun == ["b"]
    assert ONE not in work.tasks
    labels = {"operation": "unexpected"}
    assert work.metrics.registry.get_sample_value("roost_slurm_failures_total", labels) == 1
    work.may_end.set()
    await work.tasks.finish(1.0)


async def test_a_fault_of_work_for_many_jobs_is_counted_too() -> None:
    work = Work()

    async def fail() -> None:
        raise ValueError("a bug")

    work.tasks.spawn(fail())
    await work.tasks.finish(1.0)
    labels = {"operation": "unexpected"}
    assert work.metrics.registry.get_sample_value("roost_slurm_failures_total", labels) == 1


async def test_what_takes_too_long_is_cancelled_in_the_end() -> None:
    work = Work()
    work.add(ONE, "a")
    await work.settle()
    await work.tasks.finish(0.01)
    assert not len(work.tasks)
    assert work.tasks.is_idle


async def test_an_update_of_many_jobs_waits_for_the_updates_of_single_ones() -> None:
    tasks, order = Work().tasks, list[str]()
    may_end = asyncio.Event()

    async def one(name: str) -> None:
        async with tasks.beside_others():
            order.append(name)
            await may_end.wait()

    async def many() -> None:
        async with tasks.alone():
            order.append("many")

    work = [asyncio.create_task(one(name)) for name in ("a", "b")]
    await asyncio.sleep(0)
    work.append(asyncio.create_task(many()))
    await asyncio.sleep(0)
    work.append(asyncio.create_task(one("late")))
    for _ in range(5):
        await asyncio.sleep(0)
    assert order == ["a", "b"]
    may_end.set()
    await asyncio.gather(*work)
    assert order == ["a", "b", "many", "late"]


async def test_no_work_waits_while_slurm_is_asked_before_an_update_of_many_jobs() -> None:
    """With 20,000 jobs the answer takes five seconds."""
    work, answers = Work(), asyncio.Event()

    async def renew() -> None:
        async with work.tasks.alone(answers.wait):
            work.begun.append("renewal")

    renewal = asyncio.create_task(renew())
    await work.settle()
    work.add(ONE, "a")
    await work.settle()
    assert work.begun == ["a"]
    answers.set()
    await renewal
    assert work.begun == ["a", "renewal"]


async def test_an_update_of_many_jobs_is_tried_though_slurm_did_not_answer_before() -> None:
    async def lost() -> None:
        raise SlurmTimeout(("squeue",), 1.0)

    async with Work().tasks.alone(lost):
        pass
