"""The recorded site with accounting: its rules and its queue, and small rules made by hand."""

from dataclasses import replace
from typing import Any

from tests.slurm_glue.recorded import numbers, read

from roost_slurm.text.assoc_mgr import Association, AssocMgr, parse_assoc_mgr
from roost_slurm.text.licenses import parse_licenses
from roost_slurm.text.partitions import parse_partitions
from roost_slurm.text.qos import parse_qos
from roost_slurm.text.reservations import parse_reservations
from roost_slurm.text.scheduling import Scheduling, parse_scheduling
from roost_slurm.text.scontrol import JobDetail, parse_jobs
from roost_slurm.text.squeue import QueuedJob, parse_queue
from roostd.slurm.rules.site_rules import SiteRules


def rules(release: str) -> SiteRules:
    """The rules that a release printed."""
    return SiteRules(
        scheduling=parse_scheduling(read(release, "site_config.txt")),
        partitions=parse_partitions(read(release, "site_partitions.txt")),
        accounting=parse_assoc_mgr(read(release, "site_assoc_mgr.txt")),
        qos_traits=parse_qos(read(release, "site_qos.txt")),
        licenses=parse_licenses(read(release, "site_licenses.txt")),
        reservations=parse_reservations(read(release, "site_reservations.txt")),
        user_ids={"news": 9},
    )


def jobs(release: str) -> dict[str, QueuedJob]:
    """The queue at that moment, by job name."""
    found = {job.number: job for job in parse_queue(read(release, "site_squeue.txt")).jobs}
    by_name = numbers(release, "site_show_job.txt")
    return {name: found[number] for name, number in by_name.items()}


def details(release: str) -> dict[str, JobDetail]:
    """What scontrol showed of these jobs, by job name."""
    found = parse_jobs(read(release, "site_show_job.txt"))
    return {detail.name: detail for detail in found.values()}


def enforcing(accounting: AssocMgr, **parts: Any) -> SiteRules:
    """Rules of a site that enforces limits."""
    scheduling = Scheduling(enforced=frozenset({"associations", "limits"}))
    return SiteRules(scheduling=scheduling, accounting=accounting, **parts)


def tree(*associations: Association) -> dict[tuple[str, int | None, str], Association]:
    """Associations under their keys."""
    return {(one.account, one.user_id, one.partition): one for one in associations}


def job(number: int, gpu_count: int, **changes: Any) -> QueuedJob:
    """A waiting job of user 9 in account phys."""
    plain = QueuedJob(
        number=number,
        user_id=9,
        account="phys",
        qos="normal",
        partition="main",
        priority=1,
        tres_total=f"cpu={gpu_count},node=1,gres/gpu={gpu_count}",
        time_limit_s=3_600.0,
    )
    return replace(plain, **changes)
