"""Answers about many jobs: the event loop's other tasks run between any two of them."""

import asyncio
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from tests.daemon.rpc.served import Served

from roost_engine.domain.events import JobEnded, JobQueued, NodeSeen
from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import Forecast, JobForecast, Quantiles
from roost_engine.testing import builders
from roost_proto.v1 import operator_pb2 as pb
from roostd.ops import slices
from roostd.rpc.errors import Context
from roostd.rpc.messages import jobs
from roostd.rpc.services.operator import OperatorService
from roostd.state import BeyondSlurm

JOB_COUNT = 60
OWN_COUNT = 3
OWNER = 42


class OwnJobs:
    """The access of a user that may see its own jobs."""

    def only_owner(self, context: Context) -> int | None:
        return OWNER


@pytest.fixture
def crowd(served: Served) -> Served:
    """One node, and many more jobs than it takes; a few are the owner's."""
    served.feed(NodeSeen(at_s=100.0, node=builders.node("n1", 4)))
    for number in range(JOB_COUNT):
        user_id = OWNER if number < OWN_COUNT else 7
        job = builders.job(str(number), gpus=4, user_id=user_id)
        served.feed(JobQueued(at_s=100.0, job=job))
    run = Quantiles(60.0, 120.0, 600.0)
    expected = {JobId(str(number)): JobForecast(run, run, run) for number in range(JOB_COUNT)}
    served.state.forecast = Forecast(at_s=100.0, play_count=20, jobs=expected)
    return served


@contextmanager
def turns_counted() -> Iterator[list[int]]:
    """Count the turns of the event loop."""
    counted = [0]

    async def count() -> None:
        while True:
            counted[0] += 1
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(count())
    try:
        yield counted
    finally:
        task.cancel()


def all_jobs(service: OperatorService) -> Awaitable[pb.ListJobsResponse]:
    return service.ListJobs(pb.ListJobsRequest(), CALL)


class Call:
    """The context of a call by a user."""

    def __init__(self, uid: int) -> None:
        self._peer = f"unix-abstract:roostd-{0:016x}-uid-{uid}-pid-1"

    def peer(self) -> str:
        return self._peer


CALL: Context = Call(OWNER)  # type: ignore[assignment]
OTHER_CALL: Context = Call(7)  # type: ignore[assignment]


async def test_other_tasks_run_between_any_two_jobs(
    crowd: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    service = OperatorService(crowd.state)
    with turns_counted() as turns:
        listed = await all_jobs(service)
        assert turns[0] >= JOB_COUNT
    assert len(listed.jobs) == JOB_COUNT
    with turns_counted() as turns:
        etas = await service.GetEta(pb.GetEtaRequest(), CALL)
        assert turns[0] >= len(etas.etas) == JOB_COUNT - 1
    with turns_counted() as turns:
        await service.ListNodes(pb.ListNodesRequest(), CALL)
        assert turns[0] >= 1


async def test_answers_do_not_meet_in_a_turn(
    crowd: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64 calls of one user, each with a slice in every turn, would make each turn long."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    service = OperatorService(crowd.state)
    with turns_counted() as turns:
        await asyncio.gather(*(all_jobs(service) for _ in range(3)))
        assert turns[0] >= 3 * JOB_COUNT
    with turns_counted() as turns:
        asked = pb.ExplainJobRequest(job_id="9")
        await asyncio.gather(*(service.ExplainJob(asked, CALL) for _ in range(5)))
        assert turns[0] >= 5


async def test_the_status_and_single_jobs_and_nodes_wait_for_no_list(
    crowd: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    service = OperatorService(crowd.state)
    lists = asyncio.gather(*(all_jobs(service) for _ in range(5)))
    await asyncio.sleep(0)
    status = await service.GetStatus(pb.GetStatusRequest(), CALL)
    assert status.waiting_job_count == JOB_COUNT - 1
    assert (await service.GetJob(pb.GetJobRequest(job_id="9"), CALL)).job_id == "9"
    explained = await service.ExplainJob(pb.ExplainJobRequest(job_id="9"), CALL)
    assert explained.job.job_id == "9"
    assert (await service.GetNode(pb.GetNodeRequest(name="n1"), CALL)).name == "n1"
    assert not lists.done()
    await lists


async def test_the_list_of_another_user_waits_for_one_of_a_crowd(crowd: Served) -> None:
    service, answered = OperatorService(crowd.state), list[Context]()

    async def ask(call: Context) -> None:
        await service.ListJobs(pb.ListJobsRequest(), call)
        answered.append(call)

    await asyncio.gather(*(ask(CALL) for _ in range(9)), ask(OTHER_CALL))
    assert answered.index(OTHER_CALL) <= 2


async def test_the_status_names_no_job_of_another_user(crowd: Served) -> None:
    async def named(service: OperatorService) -> str:
        status = await service.GetStatus(pb.GetStatusRequest(), CALL)
        return status.longest_beyond_slurm_job_id

    own, every = OperatorService(crowd.state, OwnJobs()), OperatorService(crowd.state)
    for job_id, seen in (("1", "1"), ("9", "")):
        crowd.state.beyond_slurm = BeyondSlurm(longest_s=34.0, job_id=JobId(job_id))
        assert await named(own) == seen
        assert await named(every) == job_id


async def test_whose_a_job_is_costs_no_look_at_the_queue(
    crowd: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 20,000 jobs it took an hour: each one's place in the queue was computed for its user."""
    built: list[JobId] = []
    build = jobs._recorded_job

    def count(state, job_id, record):  # type: ignore[no-untyped-def]
        built.append(job_id)
        return build(state, job_id, record)

    monkeypatch.setattr(jobs, "_recorded_job", count)
    service = OperatorService(crowd.state, OwnJobs())

    etas = await service.GetEta(pb.GetEtaRequest(), CALL)
    assert {one.job_id for one in etas.etas} == {"1", "2"}
    assert built == []
    listed = await all_jobs(service)
    assert {one.job_id for one in listed.jobs} == {"0", "1", "2"}
    assert len(built) == OWN_COUNT


async def test_jobs_may_come_and_go_while_they_are_listed(
    crowd: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    service = OperatorService(crowd.state)

    async def churn() -> None:
        for number in range(JOB_COUNT, 2 * JOB_COUNT):
            crowd.feed(JobQueued(at_s=100.0, job=builders.job(str(number), gpus=4)))
            crowd.feed(JobEnded(at_s=100.0, job_id=JobId(str(number - 50))))
            await asyncio.sleep(0)

    await asyncio.gather(all_jobs(service), service.GetEta(pb.GetEtaRequest(), CALL), churn())


async def test_jobs_that_came_after_the_forecast_are_counted_among_the_callers_own(
    crowd: Served,
) -> None:
    assert crowd.state.forecast is not None
    crowd.state.forecast = replace(crowd.state.forecast, jobs={})
    own, every = OperatorService(crowd.state, OwnJobs()), OperatorService(crowd.state)
    counts = [
        (await service.GetEta(pb.GetEtaRequest(), CALL)).missing_count for service in (own, every)
    ]
    assert counts == [OWN_COUNT - 1, JOB_COUNT - 1]  # the first one runs
