"""What operators may ask of jobs: owners, comments, and why Roost leaves a job alone."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.daemon.app.watched_site import Site

from roost_engine.domain.actions import Place
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId, NodeName, Placement, Shape
from roost_engine.domain.tier import Tier
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_slurm.text.squeue import SlurmJobState
from roostd.slurm.comment import JobComment
from roostd.slurm.jobs import NO_LEASE
from roostd.state import Owner

PLACEMENT = Placement((NodeName("n1"),), (0, 1), Shape(node_count=1, gpus_per_node=2), Tier.NODE)
DECIDED = Place(job_id=JobId("1"), placement=PLACEMENT, decision=Lazy.of(None))  # type: ignore[arg-type]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_people_learn_whose_a_job_is_why_it_is_left_and_what_its_comment_said(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path, partitions={"debug": {"mode": "off"}})
    (ours,) = site.slurm.submit(gpus_per_node=1, user_id=7, comment="roost:model=bert")
    (left,) = site.slurm.submit(gpus_per_node=1, user_id=8, partition="debug")
    (held,) = site.slurm.submit(gpus_per_node=1)
    site.slurm.hold(held)

    await site.look()

    assert replace(site.state.owners[ours], priority=0) == Owner(7, "main", 1)
    assert replace(site.state.owners[left], priority=0) == Owner(8, "debug", 1)
    assert {job_id: one.is_blocked for job_id, one in site.state.unmanaged.items()} == {
        left: False,
        held: True,
    }
    assert site.state.comments == {ours: JobComment(model="bert")}


async def test_a_new_owner_is_made_only_for_a_job_that_has_changed(tmp_path: Path) -> None:
    site = Site(tmp_path, partitions={"debug": {"mode": "off"}})
    (ours,) = site.slurm.submit(gpus_per_node=1)
    (left,) = site.slurm.submit(gpus_per_node=1, partition="debug")
    await site.look()
    before = dict(site.state.owners)
    site.slurm.prioritize(ours, 77)
    await site.look()
    assert site.state.owners[left] is before[left]
    assert site.state.owners[ours] == replace(before[ours], priority=77)


async def test_a_job_left_to_slurm_is_said_to_be_held_until_it_runs(tmp_path: Path) -> None:
    site = Site(tmp_path, partitions={"main": {"mode": "off"}})
    (left,) = site.slurm.submit(gpus_per_node=1)
    site.slurm.hold(left)
    await site.look()
    assert site.state.unmanaged[left].reason == "partition main is off; it is held"
    site.slurm.hold(left, release=True)
    site.now_s += 200.0  # beyond its lease
    site.slurm.tick()
    assert site.slurm.state(left) is SlurmJobState.RUNNING
    await site.look()
    assert site.state.unmanaged[left].reason == "partition main is off"


async def test_what_people_may_ask_ends_with_a_job_that_the_engine_never_had(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path, partitions={"debug": {"mode": "off"}})
    (left,) = site.slurm.submit(gpus_per_node=1, partition="debug")
    await site.look()
    assert left in site.state.unmanaged
    site.slurm.end(left)
    await site.look()
    assert (site.state.unmanaged, site.state.owners) == ({}, {})


async def test_a_left_job_that_is_gone_unseen_is_remembered_until_its_number_comes_back(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path, partitions={"debug": {"mode": "off"}})
    site.state.engine = Engine(EngineConfig(ended_job_count=2), Policies())
    await site.look()
    jobs = [site.slurm.submit(gpus_per_node=1, partition="debug")[0] for _ in range(3)]
    (held,) = site.slurm.submit(gpus_per_node=1)
    site.slurm.hold(held)
    await site.look()
    for job_id in jobs:
        site.slurm.end(job_id)
    site.now_s += 5.0
    await site.look()
    await site.look()
    assert list(site.state.left_queue) == jobs[1:]
    left = site.state.left_queue[jobs[1]]
    assert left.reason == "partition debug is off"
    assert left.owner is not None
    assert (left.owner.user_id, left.owner.gpu_count) == (1000, 1)

    site.slurm.end(held)
    await site.look()
    assert site.state.left_queue[held].reason == "is held: scontrol release frees it"
    again = replace(site.state.left_queue[held], reason="of the job that had the number before")
    (next_one,) = site.slurm.submit(gpus_per_node=1, partition="debug")
    site.state.left_queue[next_one] = again
    await site.look()
    assert next_one not in site.state.left_queue
    assert next_one in site.state.unmanaged


async def test_a_job_that_the_engine_released_keeps_its_reason(site: Site) -> None:
    site.slurm.lease_s, lease_s = None, site.slurm.lease_s
    site.slurm.submit(gpus_per_node=8)  # runs, so that all others wait
    site.slurm.lease_s = lease_s
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    await site.look()
    why = "Slurm refused it 3 times: node busy"
    site.state.release_reasons[job_id] = why
    await site.slurm.release([job_id])
    await site.look()
    assert site.state.unmanaged[job_id].reason == why

    site.slurm.lease_s = None
    (later,) = site.slurm.submit(gpus_per_node=2)
    await site.look()
    assert site.state.unmanaged[later].reason == NO_LEASE


async def test_decisions_of_earlier_engines_are_forgotten_with_their_jobs(site: Site) -> None:
    (job_id,) = site.slurm.submit(gpus_per_node=2)
    site.state.earlier_decisions = {job_id: DECIDED, JobId("77"): DECIDED}
    await site.look()
    assert site.state.earlier_decisions == {job_id: DECIDED}
