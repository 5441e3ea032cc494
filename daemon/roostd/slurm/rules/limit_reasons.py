"""Limits that a job exceeds all by itself, under Slurm's own names for them. Pure."""

from collections.abc import Iterator, Mapping

from roost_slurm.text.assoc_mgr import JobLimits
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.tres import parse_counts
from roostd.slurm.rules.quotas import QuotaRules

_BILLING = "billing"
# Slurm's names follow no pattern: by limit, then for cpu, mem, node, gres and license.
_KINDS = ("cpu", "mem", "node", "gres", "license")
_REASONS = {
    "QOS job": (
        "QOSMaxCpuPerJobLimit",
        "QOSMaxMemoryPerJob",
        "QOSMaxNodePerJobLimit",
        "QOSMaxGRESPerJob",
        "QOSMaxLicensePerJob",
    ),
    "Assoc job": (
        "AssocMaxCpuPerJobLimit",
        "AssocMaxMemPerJob",
        "AssocMaxNodePerJobLimit",
        "AssocMaxGRESPerJob",
        "AssocMaxLicensePerJob",
    ),
    "QOS minutes": (
        "QOSMaxCpuMinutesPerJobLimit",
        "QOSMaxMemoryMinutesPerJob",
        "QOSMaxNodeMinutesPerJob",
        "QOSMaxGRESMinutesPerJob",
        "QOSMaxLicenseMinutesPerJob",
    ),
    "Assoc minutes": (
        "AssocMaxCpuMinutesPerJobLimit",
        "AssocMaxMemMinutesPerJob",
        "AssocMaxNodeMinutesPerJob",
        "AssocMaxGRESMinutesPerJob",
        "AssocMaxLicenseMinutesPerJob",
    ),
    "QOS node": (
        "QOSMaxCpuPerNode",
        "QOSMaxMemoryPerNode",
        "QOSMaxUnknownPerNode",
        "QOSMaxGRESPerNode",
        "QOSMaxUnknownPerNode",
    ),
    "Assoc node": (
        "AssocMaxCpuPerNode",
        "AssocMaxMemoryPerNode",
        "AssocMaxUnknownPerNode",
        "AssocMaxGRESPerNode",
        "AssocMaxUnknownPerNode",
    ),
    "QOS least": (
        "QOSMinCpuNotSatisfied",
        "QOSMinMemory",
        "QOSMinNode",
        "QOSMinGRES",
        "QOSMinLicense",
    ),
    "QOSGrpTRES": (
        "QOSGrpCpuLimit",
        "QOSGrpMemLimit",
        "QOSGrpNodeLimit",
        "QOSGrpGRES",
        "QOSGrpLicense",
    ),
    "AssocGrpTRES": (
        "AssocGrpCpuLimit",
        "AssocGrpMemLimit",
        "AssocGrpNodeLimit",
        "AssocGrpGRES",
        "AssocGrpLicense",
    ),
    "QOSMaxTRESPerUser": (
        "QOSMaxCpuPerUserLimit",
        "QOSMaxMemoryPerUser",
        "QOSMaxNodePerUserLimit",
        "QOSMaxGRESPerUser",
        "QOSMaxLicensePerUser",
    ),
    "QOSMaxTRESPerAccount": (
        "MaxCpuPerAccount",
        "MaxMemoryPerAccount",
        "MaxNodePerAccount",
        "MaxGRESPerAccount",
        "MaxLicensePerAccount",
    ),
}
_WITHOUT_TRES = {
    "License": "Licenses",
    "QOSGrpJobs": "QOSGrpJobsLimit",
    "QOSMaxJobsPerUser": "QOSMaxJobsPerUserLimit",
    "QOSMaxJobsPerAccount": "MaxJobsPerAccount",
    "AssocGrpJobs": "AssocGrpJobsLimit",
    "AssocMaxJobs": "AssocMaxJobsLimit",
}


def beyond_job_limits(rules: QuotaRules, job: QueuedJob, detail: JobDetail | None) -> str | None:
    """Return the limit for each job that a job exceeds, or None.

    As with shared limits, a QoS that sets a limit takes the place of the same limit of the next QoS
    and of the association.
    """
    most_nodes = detail.max_node_count if detail is not None else None
    claimed: set[str] = set()
    for source, name, limits, factor in _levels(rules, job):
        for kind, tres, asked, limit in _asked(limits, job, most_nodes, factor):
            is_least = kind == "least"
            is_beyond = asked < limit if is_least else asked > limit
            if is_beyond and f"{kind} {tres}" not in claimed:
                reason = _reason(f"{source} {kind}", tres)
                word = "asked, at least" if is_least else "asked, at most"
                return f"{reason}: {asked:g} of {tres} {word} {limit:g} in {name}"
            claimed.add(f"{kind} {tres}")
        wall = limits.wall_minutes
        if wall is not None and job.time_limit_s is not None and "wall" not in claimed:
            if job.time_limit_s > wall * 60:
                reason = f"{source}MaxWallDurationPerJobLimit"
                return f"{reason}: {job.time_limit_s / 60:g} minutes, {wall:g} in {name}"
            claimed.add("wall")
    return None


def unreachable(rules: QuotaRules, job: QueuedJob) -> str | None:
    """Return the shared limit that a job would exceed if nothing else ran, or None."""
    for share in rules.shares(job):
        if share.is_checked and share.used is None and share.amount > share.limit:
            name, _, rest = share.quota.partition(" ")
            reason = _reason(name, share.tres) if share.tres else _WITHOUT_TRES[name]
            return f"{reason}: {share.amount:g} asked, at most {share.limit:g} of {rest}"
    return None


def _levels(rules: QuotaRules, job: QueuedJob) -> Iterator[tuple[str, str, JobLimits, float]]:
    """Yield where limits for each job are set, the ones that count first, with their factor."""
    for qos in rules.qos_in_order(job):
        yield "QOS", f"QoS {qos.name}", qos.per_job, 1.0
    # A user's association has the limits of the accounts above it already.
    for association in rules.associations(job)[:1]:
        account = f"account {association.account}"
        yield "Assoc", account, association.per_job, rules.limit_factor(job)


def _asked(
    limits: JobLimits, job: QueuedJob, most_nodes: int | None, factor: float
) -> Iterator[tuple[str, str, float, float]]:
    """Yield kind of limit, TRES, the amount that a job asks for, and the limit."""
    total = parse_counts(job.tres_total)
    for tres, limit in _counted(limits.tres):
        yield "job", tres, total.get(tres, 0.0), limit * factor
    for tres, limit in _counted(limits.tres_per_node):
        if most_nodes:  # where the job may have any number of nodes it may spread
            yield "node", tres, total.get(tres, 0.0) / most_nodes, limit
    for tres, limit in _counted(limits.tres_minutes):
        if job.time_limit_s:
            yield "minutes", tres, total.get(tres, 0.0) * job.time_limit_s / 60, limit * factor
    for tres, limit in _counted(limits.least_tres):
        yield "least", tres, total.get(tres, 0.0), limit


def _counted(limits: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    return ((tres, limit) for tres, limit in limits.items() if tres != _BILLING)


def _reason(limit: str, tres: str) -> str:
    kind = tres.partition("/")[0]
    return _REASONS[limit][_KINDS.index(kind)] if kind in _KINDS else "AssociationResourceLimit"
