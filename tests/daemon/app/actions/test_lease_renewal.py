"""Leases are renewed in time, the first one to its full length, and ended once."""

import pytest
from tests.daemon.app.applied_site import Site

from roost_engine.domain.model import JobId
from roost_slurm.text import commands
from roostd.slurm import lease_plan
from roostd.testing.slurm_faults import Fault


async def test_a_first_lease_is_made_a_full_one_once() -> None:
    site = Site()
    placing, _ = site.submit()
    waiting = site.wait_in_line()
    for _ in range(3):
        await site.applier.renew_first([placing, waiting])
    assert site.slurm.argvs == [commands.renew([waiting], 60)]
    other = site.wait_in_line()
    await site.applier.renew_first([waiting, other])
    assert site.slurm.argvs[1:] == [commands.renew([other], 60)]
    await site.applier.renew([waiting, other])
    await site.applier.renew_first([waiting, other])
    assert len(site.slurm.argvs) == 3


async def test_a_first_lease_that_slurm_does_not_renew_is_renewed_later() -> None:
    site = Site()
    site.slurm.inject("renew", Fault.LOST_BEFORE)
    waiting = site.wait_in_line()
    await site.applier.renew_first([waiting])
    assert not site.slurm.argvs
    await site.applier.renew_first([waiting])
    assert site.slurm.argvs == [commands.renew([waiting], 60)]


async def test_a_renewal_that_fails_is_counted_and_raises_nothing() -> None:
    site = Site()
    site.slurm.inject("renew", Fault.LOST_BEFORE)
    await site.applier.renew([site.wait_in_line()])
    assert site.count("slurm_failures", operation="renew") == 1
    assert site.count("lease_renewals") == 0


async def test_the_head_is_renewed_though_slurm_refuses_jobs_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_plan, "HEAD_COUNT", 1)
    site = Site()
    head, behind = site.wait_in_line(), site.wait_in_line()
    other = site.wait_in_line()
    site.slurm.inject("renew", Fault.LOST_BEFORE)
    await site.applier.renew([head, behind, other])
    assert site.slurm.argvs == [commands.renew([head], 60)]
    assert site.count("slurm_failures", operation="renew") == 1
    await site.applier.renew([head, behind, other])
    assert site.slurm.argvs[1] == commands.renew([behind, other], 120)


async def test_a_needless_lease_ends_once_unless_its_job_is_worked_on() -> None:
    leases = Site().applier._leases
    first, second = JobId("1"), JobId("2")
    assert leases.needless([first, second], {second}) == [first]
    assert leases.needless([first, second], ()) == [second]
    assert leases.has_ended(first)
    assert leases.needless([second], ()) == []
    assert not leases.has_ended(first)  # it has a lease no more, and may get another one
