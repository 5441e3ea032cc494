"""A requeued job starts only where slurmd has dropped its old credential."""

from dataclasses import replace

from tests.daemon.app.applied_site import Site

from roost_engine.domain.events import (
    JobEnded,
    JobStarted,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.testing.builders import share


def test_a_requeued_job_starts_no_sooner_than_its_nodes_have_settled() -> None:
    site = Site()
    job_id, place = site.submit()
    other = JobId("other")
    engine, clock = site.parts.state.engine, site.parts.clock
    engine.step(JobStarted(at_s=100.0, job_id=other, shares=(share("n1", 7),)))
    site.applier.forget(other)
    clock.at_s = 101.0

    assert site.applier._credentials.settle_delay_s(place) == 0.0  # never requeued
    site.parts.state.settle_until_s = {job_id: 90.0}
    assert site.applier._credentials.settle_delay_s(place) == 1.5  # 2.5 s after a job started there
    clock.at_s = 90.0 + 121.1
    engine.step(JobEnded(at_s=clock.at_s, job_id=other))
    site.applier.forget(other)
    assert site.applier._credentials.settle_delay_s(place) == 0.0  # slurmd has dropped it


def test_a_requeued_job_need_not_wait_for_nodes_where_it_never_ran() -> None:
    site = Site()
    job_id, place = site.submit()
    engine = site.parts.state.engine
    engine.step(JobStarted(at_s=100.0, job_id=job_id, shares=(share("n2", 0),)))
    site.applier.forget(job_id)
    engine.step(JobStarted(at_s=101.0, job_id=JobId("other"), shares=(share("n1", 7),)))
    site.applier.forget(JobId("other"))
    site.parts.clock.at_s = 101.0
    site.parts.state.settle_until_s = {job_id: 90.0}
    assert place.placement.nodes == ("n1",)
    assert site.applier._credentials.settle_delay_s(place) == 0.0
    there = replace(place, placement=replace(place.placement, nodes=(NodeName("n2"),)))
    assert site.applier._credentials.settle_delay_s(there) == 1.5  # 2.5 s after its own start
    engine.step(JobEnded(at_s=101.0, job_id=job_id))
    site.applier.forget(job_id)
    assert not site.applier._credentials._ran_on.keys() & {job_id}
