"""The reasons of waits, as the admin comments of jobs say them."""

import re
from collections.abc import Mapping

import pytest
from tests.daemon.app.applied_site import NOW_S, Site
from tests.daemon.app.parts import no_disk

from roost_engine.domain.actions import (
    Wait,
)
from roost_engine.domain.errors import SlurmTimeout
from roost_engine.domain.model import JobId
from roost_engine.testing.builders import node
from roostd.state import UnmanagedJob
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn


async def test_jobs_say_what_they_wait_for_once_and_in_plain_letters() -> None:
    site = Site()
    job_id = site.wait_in_line()
    site.applier.submit(Wait(job_id=job_id, reason="a=b\n" + "x" * 200, until_s=None), 0)

    await site.applier.announce()
    await site.applier.announce()

    said = site.slurm.admin_comment(job_id).removeprefix("roost:lease roost:advice ")
    assert said == "a:b" + "x" * 156
    assert len(site.slurm.argvs) == 1


@pytest.mark.parametrize(
    ("left_s", "form"), [(60.0, r", until \d\d:\d\d$"), (90_000.0, r", until \d{4}(-\d\d){2} ")]
)
async def test_a_deadline_is_told_by_the_clock_and_with_its_date_when_a_day_off(
    left_s: float, form: str
) -> None:
    site = Site()
    job_id = site.wait_in_line()
    site.applier.submit(Wait(job_id=job_id, reason="waits", until_s=100.0 + left_s), 0)
    await site.applier.announce()
    assert re.search(form, site.slurm.admin_comment(job_id))


async def test_a_held_job_does_not_go_on_saying_what_it_waited_for() -> None:
    site = Site()
    job_id = site.wait_in_line()
    site.applier.submit(Wait(job_id=job_id, reason="waits for 3 nodes", until_s=None), 0)
    await site.applier.announce()
    held = UnmanagedJob(reason="is held", is_blocked=True)
    site.parts.state.unmanaged[job_id] = held

    await site.applier.announce()
    await site.applier.announce()

    assert site.slurm.admin_comment(job_id) == "roost:lease roost:advice is held"
    assert len(site.slurm.argvs) == 2


async def test_a_job_whose_pin_is_just_being_taken_back_says_what_it_waits_for_after_that() -> None:
    site = Site()
    job_id = site.wait_in_line()
    site.applier.adopt([job_id], [])
    site.applier.submit(Wait(job_id=job_id, reason="waits", until_s=None), 0)
    assert not site.applier.is_idle
    await site.applier.announce()
    assert "waits" not in site.slurm.admin_comment(job_id)

    await site.done()
    await site.applier.announce()
    assert site.slurm.admin_comment(job_id) == "roost:lease roost:advice waits"


async def test_a_job_that_began_to_run_says_nothing() -> None:
    site = Site()
    job_id = site.wait_in_line()
    site.applier.submit(Wait(job_id=job_id, reason="waits", until_s=None), 0)
    site.applier.forget(job_id)
    await site.applier.announce()
    assert site.slurm.argvs == []


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.LOST_BEFORE])
async def test_a_reason_that_slurm_refuses_is_announced_again_after_pauses_that_double(
    fault: Fault,
) -> None:
    site = Site()
    job_id = site.wait_in_line()
    site.slurm.inject("announce", fault, fault)
    site.applier.submit(Wait(job_id=job_id, reason="waits for 3 nodes", until_s=None), 0)

    async def said_at(at_s: float) -> str:
        site.parts.clock.at_s = at_s
        await site.applier.announce()
        return site.slurm.admin_comment(job_id).removeprefix("roost:lease").strip()

    assert await said_at(100.0) == ""
    assert await said_at(103.9) == ""
    assert await said_at(104.0) == ""  # asked again, and refused
    assert await said_at(111.9) == ""
    assert site.count("slurm_failures", operation="announce") == 2
    assert await said_at(112.0) == "roost:advice waits for 3 nodes"
    assert len(site.slurm.argvs) == 1


async def test_a_reason_that_slurm_refused_is_replaced_by_the_job_s_next_one() -> None:
    site = Site()
    job_id = site.wait_in_line()
    site.slurm.inject("announce", Fault.REFUSED)
    site.applier.submit(Wait(job_id=job_id, reason="waits for 3 nodes", until_s=None), 0)
    await site.applier.announce()
    site.applier.submit(Wait(job_id=job_id, reason="waits for 2 nodes", until_s=None), 0)

    site.parts.clock.at_s += 60.0
    await site.applier.announce()

    assert site.slurm.admin_comment(job_id).endswith("roost:advice waits for 2 nodes")


@pytest.mark.parametrize("answers", [True, False])
async def test_a_job_that_starts_while_slurm_is_told_leaves_no_reason_behind(answers: bool) -> None:
    """Requeued later, it would say what it waited for before."""
    site = Site()

    class StartsMeanwhile(SlurmStandIn):
        async def announce(self, reasons: Mapping[JobId, str]) -> None:
            told.append(dict(reasons))
            if len(told) == 1:
                for job_id in reasons:
                    site.applier.forget(job_id)
                if not answers:
                    raise SlurmTimeout(("scontrol", "update"), 10.0)

    told: list[dict[JobId, str]] = []
    site.use(StartsMeanwhile([node("n1")], now=lambda: NOW_S), no_disk())
    job_id = site.wait_in_line()
    site.applier.submit(Wait(job_id=job_id, reason="waits for 3 nodes", until_s=None), 0)
    await site.applier.announce()
    site.parts.state.unmanaged[job_id] = UnmanagedJob(reason="is held", is_blocked=True)

    site.parts.clock.at_s += 60.0
    await site.applier.announce()

    assert told == [{job_id: "waits for 3 nodes"}]
