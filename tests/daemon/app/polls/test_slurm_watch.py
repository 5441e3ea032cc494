"""Looks at Slurm: events for the engine, leases to renew or to end, and what people may ask."""

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.daemon.app.watched_site import Site

from roost_engine.domain.events import (
    JobChanged,
    JobEnded,
    JobQueued,
    JobStarted,
    NodeSeen,
    QuotasSeen,
    SharesSeen,
    WaitSoFar,
)
from roost_engine.domain.model import JobId, NodeName, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_engine.testing.builders import node
from roost_slurm.text.assoc_mgr import Association, AssocMgr
from roost_slurm.text.partitions import Partition
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.versions import SlurmVersion
from roostd.app.polls import snapshot_reading
from roostd.config.config import Config, Mode
from roostd.ops.clock import MonotonicClock
from roostd.slurm.port import QueueSnapshot, SlurmNode
from roostd.slurm.queue_reading import view
from roostd.slurm.queue_view import SlurmQueueView
from roostd.slurm.rules.site_rules import SiteRules
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_a_look_tells_what_changed_and_nothing_twice(site: Site) -> None:
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    assert await site.look() == ["NodeSeen", "JobQueued"]
    assert await site.look() == []

    site.slurm.update(job_id, StartTime="now")
    assert await site.look() == ["JobStarted"]
    site.slurm.end(job_id)
    assert await site.look() == ["JobEnded"]


async def test_a_node_that_slurm_closes_takes_no_job(site: Site) -> None:
    await site.look()
    assert site.state.node_states == {"n1": "idle"}

    site.slurm.set_node(node("n1", usable=False))
    (job_id,) = site.slurm.submit(gpus_per_node=2)

    assert await site.look() == ["NodeSeen", "JobQueued"]  # the node before the job
    assert site.state.engine.record(job_id).placement is None


async def test_limits_on_single_nodes_are_told_and_follow_the_running_jobs(site: Site) -> None:
    partition = Partition(name="main", max_cpus_per_node=2)
    site.slurm.site_rules = SiteRules(partitions={"main": partition})
    (job_id,) = site.slurm.submit(gpus_per_node=1)
    assert await site.look() == ["NodeSeen", "QuotasSeen", "JobQueued"]
    assert site.state.engine.record(job_id).spec.node_quotas == ("MaxCPUsPerNode main",)
    assert await site.look() == []

    site.slurm.update(job_id, StartTime="now")
    assert await site.look() == ["QuotasSeen", "JobStarted"]
    seen = [event for event in site.parts.emitted if isinstance(event, QuotasSeen)]
    assert [event.node_cpus for event in seen] == [
        {"MaxCPUsPerNode main": {"n1": 2.0}},
        {"MaxCPUsPerNode main": {"n1": 1.0}},
    ]


async def test_the_shares_of_users_are_told_when_they_change(site: Site) -> None:
    def accounting(share: float) -> AssocMgr:
        users = (
            Association(account="root", user_id=5, share=share),
            Association(account="root", user_id=9),
        )
        found = (Association(account="root"), *users)
        return AssocMgr({}, {(one.account, one.user_id, one.partition): one for one in found})

    site.slurm.site_rules = SiteRules(accounting=accounting(3.0))
    site.slurm.submit(gpus_per_node=2)
    assert await site.look() == ["NodeSeen", "SharesSeen", "JobQueued"]
    told = [event for event in site.parts.emitted if isinstance(event, SharesSeen)]
    assert told[0].shares == {5: 0.75, 9: 0.25}
    assert site.state.share_count == 2
    assert SharesSeen in map(type, site.watch.cluster_events())

    site.slurm.site_rules = SiteRules(accounting=accounting(3.0))
    assert await site.look() == []
    site.slurm.site_rules = SiteRules(accounting=accounting(1.0))
    assert await site.look() == ["SharesSeen"]
    site.slurm.site_rules = SiteRules()
    assert await site.look() == ["SharesSeen"]
    told = [event for event in site.parts.emitted if isinstance(event, SharesSeen)]
    assert (told[-1].shares, site.state.share_count) == ({}, 0)


async def test_a_fresh_engine_is_told_all_there_is(site: Site) -> None:
    site.slurm.submit(gpus_per_node=2)
    await site.look()
    world = list(site.watch.cluster_events())
    assert [type(event) for event in world] == [NodeSeen, QuotasSeen, JobQueued]
    assert [event.at_s for event in world] == [100.0] * 3


async def test_while_slurm_does_not_answer_nothing_is_told_and_the_fault_is_shown(
    site: Site,
) -> None:
    await site.look()
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    site.slurm.inject("queue", Fault.LOST_BEFORE)

    assert await site.look() == []
    assert "gave no answer" in site.state.slurm_fault
    failures = {"operation": "look"}
    assert site.metrics.registry.get_sample_value("roost_slurm_failures_total", failures) == 1

    assert await site.look() == ["JobQueued"]
    assert site.state.slurm_fault == ""
    assert site.watch.leased() == (job_id,)


async def test_a_question_that_slurm_lets_wait_is_a_fault(site: Site) -> None:
    await site.look()
    assert site.state.slurm_answered_s == 100.0
    assert site.state.slurm_fault_now() == ""
    site.state.slurm_asked_s = 60.0
    assert site.state.slurm_fault_now() == "no answer for 40 s"


async def test_slurm_is_asked_at_once_and_not_waited_for_without_end(site: Site) -> None:
    task = asyncio.create_task(site.watch.run())
    try:
        async with asyncio.timeout(60):
            assert await site.watch.poll_now()
            site.slurm.inject("queue", Fault.REFUSED)
            assert site.state.ask_slurm is not None
            assert await site.state.ask_slurm()
            assert site.state.slurm_fault
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert not await site.watch.poll_now(patience_s=0.01)


async def test_slurms_release_and_name_are_learned_at_the_first_answer(site: Site) -> None:
    site.slurm.inject("nodes", Fault.REFUSED)
    await site.look()
    assert site.state.slurm_fault
    await site.look()
    assert (site.state.slurm_version, site.state.cluster) == ("24.11.5", "stand-in")


async def test_a_release_that_was_not_tried_is_told_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.slurm, "_version", SlurmVersion(27, 5))
    with capture_logs() as logs:
        await site.look()
        site.slurm.inject("nodes", Fault.REFUSED)
        await site.look()
        await site.look()
    told = [line for line in logs if line["event"] == "slurm_release_untried"]
    assert ["27.05" in line["release"] for line in told] == [True]


async def test_a_job_that_is_handed_over_is_released_and_forgotten_once_it_has_started(
    site: Site,
) -> None:
    (job_id,) = site.slurm.submit(gpus_per_node=1)
    await site.look()
    assert [one.spec.job_id for one in site.watch.waiting_jobs()] == [job_id]

    site.watch.hand_over(job_id, "left to Slurm")
    assert list(site.watch.waiting_jobs()) == []
    assert await site.look() == ["JobWithdrawn"]
    assert site.released[-1] == [job_id]
    site.slurm.update(job_id, StartTime="now")
    await site.look()
    assert site.watch.is_running(job_id)
    assert site.state.unmanaged[job_id].reason == "left to Slurm"

    site.slurm.stop(job_id)
    await site.look()
    assert [one.spec.job_id for one in site.watch.waiting_jobs()] == [job_id]


async def test_a_job_that_a_limit_holds_back_for_long_is_counted_once(site: Site) -> None:
    site.slurm.site_rules = SiteRules(partitions={"main": Partition(name="main", state="DOWN")})
    site.slurm.submit(gpus_per_node=1)
    await site.look()
    cause = {"cause": "limit"}
    assert site.metrics.registry.get_sample_value("roost_hand_overs_total", cause) is None
    site.parts.clock.at_s += site.state.config.slurm.hand_over_s
    await site.look()
    await site.look()
    assert site.metrics.registry.get_sample_value("roost_hand_overs_total", cause) == 1


async def test_a_job_that_is_handed_over_while_a_thread_reads_the_queue_stays_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end = threading.Event(), threading.Event()

    def read(*args: Any) -> SlurmQueueView:
        found = view(*args)
        began.set()
        assert may_end.wait(60.0)
        return found

    (job_id,) = site.slurm.submit(gpus_per_node=1)
    await site.look()
    with monkeypatch.context() as patch:
        patch.setattr(snapshot_reading, "LONG_QUEUE", 0)
        patch.setattr(snapshot_reading, "view", read)
        look = asyncio.create_task(site.look())
        assert await asyncio.to_thread(began.wait, 60.0)
        site.watch.hand_over(job_id, "left to Slurm")
        may_end.set()
        await look
    assert await site.look() == ["JobWithdrawn"]


async def test_the_first_poll_is_the_first_that_slurm_answers_whole(site: Site) -> None:
    """The waits of the jobs that it finds began at their submission."""

    class LateRules(SlurmStandIn):
        async def rules(self) -> SiteRules:
            self._faults.meet("rules", ("scontrol", "show", "res"))
            return self.site_rules

    slurm = LateRules([node("n1")], now=lambda: site.now_s)
    slurm.inject("rules", Fault.LOST_BEFORE)
    (job_id,) = slurm.submit(gpus_per_node=1)
    site.watch = site.watching(slurm)
    assert "JobQueued" not in await site.look()
    assert "JobQueued" in await site.look()
    (queued,) = [event for event in site.parts.emitted if isinstance(event, JobQueued)]
    assert queued.job.job_id == job_id
    assert queued.wait is not None


async def test_numbers_of_array_tasks_lead_to_their_job_ids(site: Site) -> None:
    (first, second) = site.slurm.submit(gpus_per_node=1, array=range(2))
    await site.look()
    assert sorted(site.state.job_ids.values()) == [first, second]


async def test_gpus_that_no_running_job_has_are_told_once_nodes_and_jobs_were_read_twice(
    site: Site,
) -> None:
    class Forgetful(SlurmStandIn):
        async def nodes(self) -> tuple[SlurmNode, ...]:
            return tuple(replace(one, used_gpus=(0, 1, 5)) for one in await super().nodes())

    slurm = site.slurm = Forgetful([node("n1")], now=lambda: site.now_s)
    site.watch = site.watching(slurm)
    (job_id,) = slurm.submit(gpus_per_node=2)
    shape = Shape(node_count=1, gpus_per_node=2)
    await slurm.pin(job_id, Placement((NodeName("n1"),), (0, 1), shape, Tier.NODE))
    await site.look()
    assert site.state.stranded_gpus == {}
    await site.look()
    assert site.state.stranded_gpus == {"n1": 1}


class SlowToRise(SlurmStandIn):
    """Its node is powering down at first, and ready at the next poll."""

    looks, node_state = 0, "idle+powering_down"

    async def nodes(self) -> tuple[SlurmNode, ...]:
        self.looks += 1
        found = await super().nodes()
        if self.looks > 1:
            return found
        closed = replace(found[0], state=self.node_state)
        return (replace(closed, spec=replace(closed.spec, usable=False)),)


async def test_nodes_in_transition_are_read_again_soon_after_the_first_job_comes(
    site: Site,
) -> None:
    slurm = slow_to_rise(site)
    await site.look()
    (job_id,) = slurm.submit(gpus_per_node=1)
    await assert_placed_soon(site, slurm, job_id)


async def test_blocked_nodes_are_read_again_once_a_job_has_ended(site: Site) -> None:
    slurm = slow_to_rise(site)
    slurm.node_state = "idle+blocked"
    (exclusive,) = slurm.submit(gpus_per_node=1)
    slurm.update(exclusive, StartTime="now")
    await site.look()
    (job_id,) = slurm.submit(gpus_per_node=1)
    slurm.end(exclusive)
    await assert_placed_soon(site, slurm, job_id)


def slow_to_rise(site: Site) -> SlowToRise:
    """Its nodes are polled once a minute by themselves."""
    site.state.config = Config.model_validate(
        {"mode": "enforce", "slurm": {"poll_interval_s": 60.0}}
    )
    slurm = SlowToRise([node("n1")], now=lambda: site.now_s)
    site.slurm, site.watch = slurm, site.watching(slurm)
    return slurm


async def assert_placed_soon(site: Site, slurm: SlowToRise, job_id: JobId) -> None:
    site.watch.poll()
    task = asyncio.create_task(site.watch.run())
    try:
        async with asyncio.timeout(30):
            while slurm.looks < 2:
                await site.has_news.wait()
                site.has_news.clear()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert site.state.engine.record(job_id).placement is not None


async def test_jobs_that_slurms_rules_hold_back_are_counted(site: Site) -> None:
    site.slurm.submit(gpus_per_node=2)
    await site.look()
    assert site.state.held_back_count == 0
    closed = Partition(name="main", state="DOWN")
    site.slurm.site_rules = SiteRules(partitions={"main": closed})
    await site.look()
    assert site.state.held_back_count == 1


async def test_a_job_that_people_put_first_is_changed_at_the_next_look(site: Site) -> None:
    one, two = (site.slurm.submit(gpus_per_node=8)[0] for _ in range(2))
    await site.look()
    site.slurm.prioritize(two, 9, nice=-8)
    assert await site.look() == ["JobChanged"]
    assert site.state.engine.record(two).spec.precedence == 1
    assert site.state.engine.record(two).wait.precedence == 1
    assert await site.look() == []

    site.slurm.prioritize(two, 1)
    assert await site.look() == ["JobChanged", "JobChanged"]
    assert site.state.engine.record(two).spec.precedence == 0
    assert site.state.engine.record(one).spec.overtakes == (two,)


async def test_a_job_that_was_put_first_before_a_restart_still_is(site: Site) -> None:
    one, two = (site.slurm.submit(gpus_per_node=8)[0] for _ in range(2))
    site.state.earlier_waits[two] = WaitSoFar(since_s=90.0, precedence=3)
    await site.look()
    precedences = [site.state.engine.record(job_id).spec.precedence for job_id in (one, two)]
    assert precedences == [0, 3]
    assert [type(event) for event in site.watch.cluster_events()][-1] is JobQueued


async def test_a_job_that_was_moved_past_another_one_before_a_restart_still_is(site: Site) -> None:
    one, two = (site.slurm.submit(gpus_per_node=8)[0] for _ in range(2))
    site.state.earlier_waits[one] = WaitSoFar(since_s=90.0, overtakes=(two,))
    await site.look()
    assert site.state.engine.record(one).spec.overtakes == (two,)
    assert site.state.engine.record(one).wait.overtakes == (two,)
    queued = [
        event.job.job_id for event in site.watch.cluster_events() if isinstance(event, JobQueued)
    ]
    assert queued == [two, one]


class WallClock:
    """Engine time and a wall clock that can be set; see ops.clock."""

    def __init__(self) -> None:
        self.epoch_s, self.uptime_s = 1_000.0, 0.0
        self.clock = MonotonicClock(
            100.0, self.epoch_s, monotonic=lambda: self.uptime_s, wall=lambda: self.epoch_s
        )

    def advance(self, seconds: float) -> None:
        self.epoch_s += seconds
        self.uptime_s += seconds


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
async def test_a_begin_time_holds_by_the_wall_clock_that_was_set(site: Site, step_s: float) -> None:
    wall = WallClock()
    site.state.clock = wall.clock
    site.now_s = wall.epoch_s
    (job_id,) = site.slurm.submit(gpus_per_node=2, begin_epoch_s=8_200)
    await site.look()
    queued = next(event for event in site.parts.emitted if isinstance(event, JobQueued))
    assert queued.job.eligible_s == 7_300.0

    wall.advance(60.0)
    wall.epoch_s += step_s
    site.now_s = wall.epoch_s
    assert await site.look() == ["JobChanged"]

    (changed,) = (event for event in site.parts.emitted if isinstance(event, JobChanged))
    assert changed.job == replace(queued.job, eligible_s=7_300.0 - step_s)
    assert await site.look() == []
    assert site.state.engine.record(job_id).spec == changed.job


@pytest.mark.parametrize("is_changed", [False, True])
async def test_a_long_queue_is_read_beside_the_loop_and_told_once(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_changed: bool
) -> None:
    """Also where a fresh engine is told of the queue meanwhile, with other settings or not."""
    began, may_end = threading.Event(), threading.Event()

    def read(*args: Any) -> SlurmQueueView:
        began.set()
        if threading.current_thread() is not threading.main_thread():
            assert may_end.wait(60.0)
        return view(*args)

    monkeypatch.setattr(snapshot_reading, "LONG_QUEUE", 0)
    monkeypatch.setattr(snapshot_reading, "view", read)
    site.slurm.submit(gpus_per_node=2)
    look = asyncio.create_task(site.look())
    assert await asyncio.to_thread(began.wait, 60.0)
    if is_changed:
        site.state.config = site.state.config.model_copy(update={"accounts": ("physics",)})
    world = [type(event) for event in site.watch.cluster_events()]
    may_end.set()
    queued = [*(event.__name__ for event in world), *await look].count("JobQueued")
    assert world[:2] == [NodeSeen, QuotasSeen]
    assert queued == (not is_changed)
    assert await site.look() == []


@pytest.mark.parametrize("is_long", [False, True])
async def test_the_tasks_of_one_array_make_a_long_queue(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """squeue's record of an array is one, and reading it costs what its tasks cost."""
    task_ids = tuple(range(snapshot_reading.LONG_QUEUE + is_long))
    array = QueuedJob(number=9, array_number=9, task_ids=task_ids)

    async def dump() -> QueueSnapshot:
        return QueueSnapshot(at_epoch_s=0.0, jobs=(array,))

    monkeypatch.setattr(site.slurm, "queue", dump)
    await site.look()
    assert site.watch.is_queue_long == is_long


async def test_the_end_of_a_long_queue_is_read_beside_the_loop(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array of 15,000 tasks that is cancelled is as long to read as one that waits."""
    threads = list[threading.Thread]()

    def read(*args: Any) -> SlurmQueueView:
        threads.append(threading.current_thread())
        return view(*args)

    monkeypatch.setattr(snapshot_reading, "LONG_QUEUE", 20)
    monkeypatch.setattr(snapshot_reading, "view", read)
    job_ids = site.slurm.submit(gpus_per_node=8, array=range(30))
    await site.look()
    for job_id in job_ids:
        site.slurm.end(job_id)
    await site.look()
    await site.look()
    main = threading.main_thread()
    assert [thread is main for thread in threads] == [False, False, True]


async def test_a_crowd_is_looked_at_less_often(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await site.look()
    monkeypatch.setattr(site.watch, "_show", lambda look: _work(0.05))
    began_s = time.monotonic()
    await site.look()
    site.watch.poll()
    await site.watch._schedule.until_due()
    assert time.monotonic() - began_s > 0.05 / 0.15  # 15 % of the time at most


@pytest.mark.parametrize("is_long", [False, True])
async def test_the_dump_of_a_long_queue_counts_as_cost(
    site: Site, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    monkeypatch.setattr(snapshot_reading, "LONG_QUEUE", -1 if is_long else 300)
    dump = site.slurm.queue

    async def slow_dump() -> QueueSnapshot:
        await asyncio.sleep(0.1)
        return await dump()

    costs_s: list[float] = []
    monkeypatch.setattr(site.slurm, "queue", slow_dump)
    monkeypatch.setattr(site.watch._schedule, "pause_after", costs_s.append)
    await site.look()
    assert [cost_s >= 0.1 for cost_s in costs_s] == [is_long]


def _work(seconds: float) -> None:
    began_s = time.thread_time()
    while time.thread_time() - began_s < seconds:
        pass


async def test_a_fresh_engine_gets_the_readings_of_the_last_poll_unless_settings_changed(
    site: Site,
) -> None:
    (job_id,) = site.slurm.submit(gpus=2)
    await site.look()
    read = site.watch._view.waiting[job_id]

    list(site.watch.cluster_events())
    assert site.watch._view.waiting[job_id] is read

    site.state.config = site.state.config.model_copy(update={"mode": Mode.ADVISE})
    list(site.watch.cluster_events())
    assert site.watch._view.waiting[job_id] is not read


async def test_a_new_job_that_slurm_may_start_is_not_placed(site: Site) -> None:
    """Its kind ran for a second, and no other job waits."""
    for _ in range(8):
        (job_id,) = site.slurm.submit(gpus_per_node=1)
        await site.look()
        site.watch.short_runs.observe(JobStarted(at_s=1.0, job_id=job_id, shares=()), ())
        site.watch.short_runs.observe(JobEnded(at_s=2.0, job_id=job_id), ())
        site.slurm.end(job_id)
        await site.look()
    site.parts.clock.at_s += 2.0
    (job_id,) = site.slurm.submit(gpus_per_node=1)
    assert await site.look() == ["JobWithdrawn"]
    assert site.watch.short_runs.is_opened(job_id)

    site.slurm.submit(gpus_per_node=2)
    assert await site.look() == ["JobQueued", "JobQueued"]
    assert not site.watch.short_runs.is_opened(job_id)
