"""The limits that several jobs share, counted by Slurm's own rules. Pure.

For each limit slurmctld looks at the first of two QoS, then at the second one (the job's and the
partition's, in this order under the flag OverPartQOS, else the other way round), then at the job's
association, and for limits of groups at all accounts above it. Once one of them sets a limit, the
same limit of the later ones is not looked at. What a job uses counts everywhere all the same.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from roost_engine.domain.model import QuotaUse
from roost_slurm.text.assoc_mgr import Association, AssocMgr, Budget, GroupLimits, Qos
from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.licenses import License, parse_request
from roost_slurm.text.partitions import Partition
from roost_slurm.text.qos import OVER_PARTITION_QOS, QosTraits
from roost_slurm.text.scheduling import Scheduling
from roost_slurm.text.squeue import QueuedJob, SlurmJobState
from roost_slurm.text.tres import parse_counts

# Limits on these act on a price or a measurement, not on what a job asks for.
_UNCOUNTED = frozenset({"billing", "energy", "fs/disk", "vmem", "pages"})
# slurmctld takes a job out of its counts when it begins to complete.
_COUNTING = frozenset({SlurmJobState.RUNNING, SlurmJobState.SUSPENDED, SlurmJobState.CONFIGURING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One limit that a job counts against.

    Attributes:
        quota: its name, unique.
        kind: of the limit, for the order above: "GrpTRES gres/gpu".
        usage: what is counted: quotas of different size may count the same.
        tres: which TRES; "" where jobs, licenses or run time are counted.
        used: as slurmctld reported it; None: what the running jobs add up to.
        is_checked: slurmctld compares this job with the limit.
    """

    quota: str
    kind: str
    usage: str
    amount: float
    limit: float
    tres: str = ""
    used: float | None = None
    is_checked: bool = True


class QuotaRules:
    """The limits of one site, see the module.

    Args:
        scheduling: whether limits are enforced at all.
        accounting: QoS and associations.
        qos_traits: of each QoS, by name; may be empty.
        partitions: by name.
        licenses: by name.
    """

    def __init__(
        self,
        scheduling: Scheduling,
        accounting: AssocMgr,
        qos_traits: Mapping[str, QosTraits],
        partitions: Mapping[str, Partition],
        licenses: Mapping[str, License],
    ) -> None:
        self._scheduling, self._accounting = scheduling, accounting
        self._traits, self._partitions, self._licenses = qos_traits, partitions, licenses
        self._known: dict[object, tuple[Share, ...]] = {}

    def shares(self, job: QueuedJob) -> tuple[Share, ...]:
        """Return every limit that a job counts against; the same for jobs that ask alike."""
        asked = (job.tres_total, job.licenses, job.time_limit_s)
        key = (job.account, job.user_id, job.qos, job.partition, *asked)
        if key not in self._known:
            self._known[key] = tuple(share for share in self._shares(job) if share.amount > 0)
        return self._known[key]

    def uses(self, job: QueuedJob) -> tuple[QuotaUse, ...]:
        """Return what a job takes of each limit that slurmctld compares it with."""
        checked = (share for share in self.shares(job) if share.is_checked)
        return tuple(QuotaUse(share.quota, share.amount) for share in checked)

    def free(self, jobs: Iterable[QueuedJob]) -> dict[str, float]:
        """Return what the running jobs of a queue leave of each quota that any of its jobs has."""
        limits: dict[str, Share] = {}
        used: defaultdict[str, float] = defaultdict(float)
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        for job in jobs:
            is_counted = job.state in _COUNTING
            for share in self.shares(job):
                limits.setdefault(share.quota, share)
                if is_counted and share.tres == "node":
                    nodes[share.usage].update(_nodes_of(job))  # a shared node counts once
                elif is_counted:
                    used[share.usage] += share.amount
        used.update((usage, float(len(names))) for usage, names in nodes.items())
        return {
            quota: share.limit - (used[share.usage] if share.used is None else share.used)
            for quota, share in limits.items()
        }

    def qos_in_order(self, job: QueuedJob) -> tuple[Qos, ...]:
        """Return the job's QoS and the partition's, the one first whose limits come first."""
        partition = self._partitions.get(job.partition)
        names = [partition.qos if partition else "", job.qos]
        if OVER_PARTITION_QOS in self.flags(job):
            names.reverse()
        known = (self._accounting.qos.get(name) for name in dict.fromkeys(filter(None, names)))
        return tuple(qos for qos in known if qos is not None)

    def flags(self, job: QueuedJob) -> frozenset[str]:
        """Return the flags of a job's QoS."""
        traits = self._traits.get(job.qos)
        return traits.flags if traits else frozenset()

    def limit_factor(self, job: QueuedJob) -> float:
        """Return what multiplies the TRES limits of associations for a job."""
        traits = (self._traits.get(qos.name) for qos in self.qos_in_order(job))
        factors = (one.limit_factor for one in traits if one is not None)
        return next((factor for factor in factors if factor is not None), 1.0)

    def associations(self, job: QueuedJob) -> tuple[Association, ...]:
        """Return a job's association and the accounts above it."""
        return tuple(self._accounting.chain(job.account, job.user_id, job.partition))

    def _user_of(self, job: QueuedJob) -> str:
        """Return a job's user as people and Slurm name it."""
        names = (one.user_name for one in self.associations(job))
        return _user(next(filter(None, names), ""), job.user_id)

    def _shares(self, job: QueuedJob) -> Iterator[Share]:
        yield from self._of_licenses(job)
        if not self._scheduling.enforces_limits:
            return
        claimed: frozenset[str] = frozenset()
        for qos in self.qos_in_order(job):
            shares = tuple(self._of_qos(qos, job))
            for share in shares:
                yield replace(share, is_checked=share.kind not in claimed)
            claimed |= {share.kind for share in shares}
        if not claimed.isdisjoint({"MaxJobsPerUser", "MaxJobsPerAccount"}):
            claimed |= {"MaxJobs"}
        factor = self.limit_factor(job)
        for level, association in enumerate(self.associations(job)):
            for share in self._of_association(association, job, factor, is_own=level == 0):
                yield replace(share, is_checked=share.kind not in claimed)

    def _of_licenses(self, job: QueuedJob) -> Iterator[Share]:
        for name, count in parse_request(job.licenses).items():
            license_ = self._licenses.get(name)
            if license_ is not None:
                yield _share("License", name, float(count), float(license_.usable_count))

    def _of_qos(self, qos: Qos, job: QueuedJob) -> Iterator[Share]:
        yield from self._of_group("QOS", qos.name, qos.group, job)
        owners: tuple[tuple[str, GroupLimits, str, int | str], ...] = (
            ("PerUser", qos.per_user, f"{qos.name} {self._user_of(job)}", job.user_id),
            ("PerAccount", qos.per_account, f"{qos.name} account={job.account}", job.account),
        )
        for suffix, limits, whose, owner in owners:
            yield from _of_tres(f"QOSMaxTRES{suffix}", f"Max{suffix}TRES", whose, limits, job)
            used = qos.minutes_used.get(owner, {})
            for tres, needed, budget in _minutes_of(limits.running_tres_minutes, job):
                budget = replace(budget, used=used.get(tres, 0.0))
                name = f"QOSMaxTRESRunMins{suffix}"
                share = self._of_minutes(name, whose, tres, needed, budget, is_past=False)
                yield replace(share, kind=f"{name} {tres}")
            if limits.job_count is not None:
                share = _share(f"QOSMaxJobs{suffix}", whose, 1.0, limits.job_count)
                yield replace(share, kind=f"MaxJobs{suffix}")

    def _of_association(
        self, one: Association, job: QueuedJob, factor: float, *, is_own: bool
    ) -> Iterator[Share]:
        user = "" if one.user_id is None else f" {_user(one.user_name, one.user_id)}"
        whose = f"{one.account}{user}{one.partition and ' partition=' + one.partition}"
        yield from self._of_group("Assoc", whose, one.group, job, factor)
        if is_own and one.max_job_count is not None:
            yield replace(_share("AssocMaxJobs", whose, 1.0, one.max_job_count), kind="MaxJobs")

    def _of_group(
        self, prefix: str, whose: str, limits: GroupLimits, job: QueuedJob, factor: float = 1.0
    ) -> Iterator[Share]:
        yield from _of_tres(f"{prefix}GrpTRES", "GrpTRES", whose, limits, job, factor)
        if limits.job_count is not None:
            yield replace(_share(f"{prefix}GrpJobs", whose, 1.0, limits.job_count), kind="GrpJobs")
        for name, budgets, is_past in (
            ("GrpTRESMins", limits.tres_minutes, True),
            ("GrpTRESRunMins", limits.running_tres_minutes, False),
            ("GrpWall", {"": limits.wall_minutes} if limits.wall_minutes else {}, True),
        ):
            for tres, needed, budget in _minutes_of(budgets, job):
                share = self._of_minutes(f"{prefix}{name}", whose, tres, needed, budget, is_past)
                yield replace(share, kind=f"{name} {tres}")

    def _of_minutes(
        self, name: str, whose: str, tres: str, needed: float, budget: Budget, is_past: bool
    ) -> Share:
        used = budget.used
        if is_past and self._scheduling.is_safe and tres:
            used += budget.committed
        elif is_past:
            needed = min(needed, 1.0)  # a job starts as long as anything is left
        return replace(_share(name, f"{whose} {tres}".rstrip(), needed, budget.limit), used=used)


def _nodes_of(job: QueuedJob) -> Iterable[str]:
    try:
        return expand(job.nodes)
    except HostlistError:
        return ()


def _user(name: str, user_id: int) -> str:
    return f"user={name}" if name else f"uid={user_id}"


def _minutes_of(
    budgets: Mapping[str, Budget], job: QueuedJob
) -> Iterator[tuple[str, float, Budget]]:
    """Yield each TRES with a budget of minutes, and what a job takes of it until its time limit."""
    minutes = (job.time_limit_s or 0.0) / 60
    asked = {"": 1.0, **parse_counts(job.tres_total)}
    for tres, budget in budgets.items() if minutes else ():
        if tres not in _UNCOUNTED:
            yield tres, asked.get(tres, 0.0) * minutes, budget


def _of_tres(
    name: str, kind: str, whose: str, limits: GroupLimits, job: QueuedJob, factor: float = 1.0
) -> Iterator[Share]:
    asked = parse_counts(job.tres_total)
    for tres, limit in limits.tres.items():
        if tres not in _UNCOUNTED:
            usage = f"{name} {whose} {tres}"
            size = "" if factor == 1.0 else f" x{factor:g}"
            yield Share(
                quota=usage + size,
                kind=f"{kind} {tres}",
                usage=usage,
                amount=asked.get(tres, 0.0),
                limit=limit * factor,
                tres=tres,
            )


def _share(name: str, whose: str, amount: float, limit: float) -> Share:
    quota = f"{name} {whose}"
    return Share(quota=quota, kind=name, usage=quota, amount=amount, limit=limit)
