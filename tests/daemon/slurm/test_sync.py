"""The events of a queue that changes between two polls."""

from dataclasses import replace

import pytest
from tests.daemon.slurm.watcher import BOOKWORM, Watcher

from roost_engine.domain.events import (
    JobChanged,
    JobEnded,
    JobQueued,
    JobStarted,
    JobWithdrawn,
    NodeLost,
    NodeSeen,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.testing.builders import job, node
from roost_slurm.text.squeue import SlurmJobState
from roost_slurm.text.versions import SlurmVersion
from roostd.slurm.queue_reading import view
from roostd.slurm.queue_view import SlurmQueueView
from roostd.slurm.sync import diff, diff_nodes
from roostd.testing.slurm_stand_in import SlurmStandIn


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


async def test_job_is_queued_started_and_ended(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    assert await watcher.kinds() == [("JobQueued", "1")]
    assert await watcher.kinds() == []
    await watcher.pin(job_id, "n2", 3, 4)
    (event,) = await watcher.poll()
    assert isinstance(event, JobStarted)
    assert [(share.node, share.gpu_indices) for share in event.shares] == [("n2", (3, 4))]
    watcher.slurm.end(job_id)
    assert await watcher.kinds() == [("JobEnded", "1")]


async def test_a_job_that_was_released_to_slurm_ends_when_it_is_cancelled(watcher: Watcher) -> None:
    watcher.slurm.lease_s, lease_s = None, watcher.slurm.lease_s
    watcher.slurm.submit(gpus_per_node=8, nodes=(2, 2))  # runs, so that all others wait
    watcher.slurm.lease_s = lease_s
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.poll()
    await watcher.slurm.release([job_id])
    assert await watcher.kinds() == [("JobWithdrawn", job_id)]
    watcher.slurm.end(job_id)
    assert await watcher.kinds() == [("JobEnded", job_id)]


async def test_pin_that_has_not_started_yet_is_no_change() -> None:
    watcher = Watcher(SlurmVersion(24, 11, 5))
    first, second = (watcher.slurm.submit(gpus=1)[0] for _ in range(2))
    await watcher.poll()
    await watcher.pin(first, "n1", 0)
    await watcher.poll()
    await watcher.pin(second, "n1", 0)
    assert await watcher.kinds() == []


async def test_a_release_that_keeps_types_reports_the_only_gpus_that_a_job_can_have(
    watcher: Watcher,
) -> None:
    first, second = (watcher.slurm.submit(gpus=1)[0] for _ in range(2))
    await watcher.poll()
    await watcher.pin(first, "n1", 0)
    await watcher.poll()
    before = watcher.view.waiting[second]
    await watcher.pin(second, "n1", 0)
    (event,) = await watcher.poll()
    assert event == JobChanged(at_s=watcher.now_s, job=replace(before, fixed_indices=(0,)))
    assert await watcher.kinds() == []


async def test_jobs_that_slurm_placed_itself_are_reported_with_their_whole_allocation(
    watcher: Watcher,
) -> None:
    watcher.slurm.lease_s = None
    watcher.slurm.submit(gpus=2, tasks=4)
    watcher.slurm.submit(tasks=3)  # no GPUs, but CPUs of a GPU node
    shares = [event.shares[0] for event in await watcher.poll() if isinstance(event, JobStarted)]
    assert [(share.gpu_indices, share.cpu_count) for share in shares] == [((0, 1), 4), ((), 3)]


async def test_held_job_is_withdrawn_and_comes_back(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=1)
    await watcher.poll()
    watcher.slurm.hold(job_id)
    (event,) = await watcher.poll()
    assert isinstance(event, JobWithdrawn)
    assert event.reason == "is held: scontrol release frees it"
    watcher.slurm.hold(job_id, release=True)
    assert await watcher.kinds() == [("JobQueued", "1")]


async def test_cancelled_job_ends(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=1)
    await watcher.poll()
    watcher.slurm.end(job_id)
    assert await watcher.kinds() == [("JobEnded", "1")]


async def test_only_as_many_tasks_as_the_limit_leaves_may_be_placed(watcher: Watcher) -> None:
    tasks = watcher.slurm.submit(gpus=1, array=range(5), task_limit=2)
    assert [pair for pair in await watcher.kinds() if pair[0] == "JobQueued"] == [
        ("JobQueued", tasks[0]),
        ("JobQueued", tasks[1]),
    ]
    assert set(watcher.view.blocked) == set(tasks[2:])
    await watcher.pin(tasks[0], "n1", 5)
    assert await watcher.kinds() == [("JobStarted", tasks[0])]
    watcher.slurm.end(tasks[0])
    assert await watcher.kinds() == [("JobEnded", tasks[0]), ("JobQueued", tasks[2])]


async def test_limit_of_the_waiting_tasks_counts_not_that_of_the_running(watcher: Watcher) -> None:
    tasks = watcher.slurm.submit(gpus=1, array=range(3), task_limit=1)
    await watcher.pin(tasks[0], "n1", 5)
    snapshot = await watcher.slurm.queue()
    running = next(job.number for job in snapshot.jobs if job.is_holding)
    details = {
        number: detail if number == running else replace(detail, task_limit=3)
        for number, detail in snapshot.details.items()
    }
    jobs = tuple(sorted(snapshot.jobs, key=lambda job: job.is_holding))
    seen = view(
        replace(snapshot, jobs=jobs, details=details),
        watcher.reader,
        [NodeName("n1")],
        watcher.view,
        watcher.now_s,
    )
    assert set(seen.waiting) == set(tasks[1:])


async def test_requeued_job_gives_back_its_gpus_and_waits_again(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.pin(job_id, "n1", 6, 7)
    await watcher.poll()
    watcher.slurm.stop(job_id)
    (queued,) = await watcher.poll()  # no JobEnded: the engine keeps what it knows of its runs
    assert isinstance(queued, JobQueued)
    assert queued.job.gpu_count == 2
    assert queued.job.required_nodes == ()


async def test_requeued_job_holds_its_gpus_until_it_is_cleared_away(watcher: Watcher) -> None:
    """Slurm counts the restart at once, while the processes of the job still end."""
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.pin(job_id, "n1", 6, 7)
    await watcher.poll()
    snapshot = await watcher.slurm.queue()
    leaving = replace(snapshot.jobs[0], state=SlurmJobState.COMPLETING, restart_count=1)
    names = [NodeName("n1"), NodeName("n2")]
    before = watcher.view
    watcher.view = view(replace(snapshot, jobs=(leaving,)), watcher.reader, names, before, 1001.0)
    assert diff(before, watcher.view, 1001.0) == ()
    watcher.slurm.stop(job_id)
    assert await watcher.kinds() == [("JobQueued", "1")]


@pytest.mark.parametrize("version", [BOOKWORM, SlurmVersion(24, 11, 5), SlurmVersion(26, 5, 5)])
async def test_requeued_job_rests_for_slurmds_sake(version: SlurmVersion) -> None:
    watcher = Watcher(version)
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.pin(job_id, "n1", 6, 7)
    await watcher.poll()
    watcher.slurm.stop(job_id)
    queued = (await watcher.poll())[-1]
    assert isinstance(queued, JobQueued)
    assert queued.job.eligible_s == watcher.now_s + 2
    watcher.now_s += 1
    assert await watcher.kinds() == []


async def test_job_whose_start_slurm_has_forgotten_is_not_placed_on_its_node_again(
    watcher: Watcher,
) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2, exclude="n9")
    waiting = await watcher.slurm.queue()
    await watcher.pin(job_id, "n1", 6, 7)
    await watcher.poll()
    names = [NodeName("n1"), NodeName("n2")]

    seen = view(waiting, watcher.reader, names, watcher.view, watcher.now_s)
    (queued,) = (e for e in diff(watcher.view, seen, watcher.now_s) if isinstance(e, JobQueued))
    later = view(waiting, watcher.reader, names, seen, watcher.now_s + 60)

    assert queued.job.excluded_nodes == ("n1", "n9")
    assert later.waiting[job_id].excluded_nodes == ("n1", "n9")
    requeued = replace(waiting, jobs=(replace(waiting.jobs[0], restart_count=1),))
    seen = view(requeued, watcher.reader, names, watcher.view, watcher.now_s)
    assert seen.waiting[job_id].excluded_nodes == ("n9",)


async def test_requeued_job_that_a_daemon_finds_at_its_start_rests_too(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    (other,) = watcher.slurm.submit(gpus=2)
    await watcher.pin(job_id, "n1", 6, 7)
    watcher.slurm.stop(job_id)
    events = await watcher.poll()
    queued = {event.job.job_id: event.job for event in events if isinstance(event, JobQueued)}
    assert queued[job_id].eligible_s == watcher.now_s + 2
    assert queued[other].eligible_s == 0.0
    watcher.now_s += 1
    assert await watcher.kinds() == []


async def test_a_job_that_runs_at_the_first_poll_is_reported_with_its_request(
    watcher: Watcher,
) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2, comment="roost:checkpoint=60", name="train")
    (plain,) = watcher.slurm.submit(gpus=1)
    await watcher.pin(job_id, "n1", 6, 7)
    await watcher.slurm.release([plain])
    watcher.now_s += 50.0
    events = await watcher.poll()
    started = {event.job_id: event for event in events if isinstance(event, JobStarted)}
    found = started[job_id].job
    assert found is not None
    assert (found.gpu_count, found.checkpoint_s, found.name) == (2, 60.0, "train")
    assert found.required_nodes == (), "as its user submitted it, without its pin"
    assert started[job_id].since_s == watcher.now_s - 50.0
    assert (started[plain].job, started[plain].since_s) == (None, None)


async def test_a_job_that_was_seen_to_wait_starts_without_its_request(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2)
    await watcher.poll()
    await watcher.pin(job_id, "n1", 6, 7)
    (started,) = await watcher.poll()
    assert isinstance(started, JobStarted)
    assert started.job is None
    again = diff(SlurmQueueView(), watcher.view, watcher.now_s)  # for a fresh engine
    assert [event.job.job_id for event in again if isinstance(event, JobStarted) and event.job]


async def test_restart_between_two_looks_is_an_end_and_a_start(watcher: Watcher) -> None:
    (job_id,) = watcher.slurm.submit(gpus=1)
    await watcher.pin(job_id, "n1", 1)
    await watcher.poll()
    watcher.slurm.stop(job_id)
    await watcher.pin(job_id, "n2", 1)
    assert await watcher.kinds() == [("JobEnded", "1"), ("JobStarted", "1")]


async def test_number_that_is_used_again_is_another_job(watcher: Watcher) -> None:
    watcher.slurm.submit(gpus=1)
    await watcher.poll()
    snapshot = await watcher.slurm.queue()
    other = replace(snapshot.jobs[0], submit_epoch_s=5000.0)
    before = watcher.view
    after = view(replace(snapshot, jobs=(other,)), watcher.reader, [], before, 5000.0)
    assert [type(event) for event in diff(before, after, 5000.0)] == [JobEnded, JobQueued]


async def test_a_submission_without_a_lease_is_unmanaged_and_reported_once(
    watcher: Watcher,
) -> None:
    watcher.slurm.lease_s = None
    watcher.slurm.submit(gpus=8, nodes=(2, 2), begin_epoch_s=9000.0)
    (event,) = await watcher.poll()
    assert isinstance(event, JobWithdrawn)
    assert "no lease" in event.reason
    assert await watcher.poll() == ()


async def test_nodes_are_seen_changed_and_lost() -> None:
    old, changed = node("n1"), node("n2")
    now = await SlurmStandIn([replace(changed, usable=False), node("n3")]).nodes()
    events = diff_nodes([old, changed], now, 7.0)
    assert [type(event) for event in events] == [NodeLost, NodeSeen, NodeSeen]
    assert diff_nodes([each.spec for each in now], now, 8.0) == ()


@pytest.mark.parametrize(
    ("overtakes", "queued"),
    [
        ({}, ["1", "2", "3"]),
        ({"1": ("3", "77")}, ["3", "1", "2"]),
        ({"1": ("2", "3"), "2": ("3",)}, ["3", "2", "1"]),
        ({"1": ("3", "2"), "3": ("2",)}, ["2", "3", "1"]),
        ({"1": ("2",), "2": ("3",), "3": ("1",)}, ["3", "2", "1"]),  # a circle
    ],
)
def test_a_job_is_queued_after_those_that_it_was_moved_past(
    overtakes: dict[str, tuple[JobId, ...]], queued: list[str]
) -> None:
    waiting = {
        JobId(name): replace(job(name), overtakes=overtakes.get(name, ()))
        for name in ("1", "2", "3")
    }
    after = SlurmQueueView(waiting=waiting, lives=dict.fromkeys(waiting, (0, 0.0, 0)))
    events = diff(SlurmQueueView(), after, 0.0)
    assert [event.job.job_id for event in events if isinstance(event, JobQueued)] == queued


async def test_an_opt_in_that_is_taken_back_while_the_job_runs_is_one_event(
    watcher: Watcher,
) -> None:
    (job_id,) = watcher.slurm.submit(gpus=2, comment="roost:share=yes,memory=20G")
    await watcher.poll()
    await watcher.pin(job_id, "n1", 0, 1)

    def changes(comment: str) -> list[str]:
        details = {
            number: replace(detail, comment=comment) for number, detail in snapshot.details.items()
        }
        seen = replace(snapshot, details=details)
        before = watcher.view
        watcher.view = view(seen, watcher.reader, [NodeName("n1")], before, watcher.now_s)
        return [type(event).__name__ for event in diff(before, watcher.view, watcher.now_s)]

    snapshot = await watcher.slurm.queue()
    assert changes("roost:share=yes,memory=20G") == ["JobStarted"]
    assert changes("roost:share=yes,memory=9G") == []
    assert changes("") == ["SharingWithdrawn"]
    assert changes("roost:share=yes,memory=20G") == []  # it stays so for this run
