"""QoS and associations with their limits, as `scontrol show assoc_mgr` prints them.

Slurm writes a limit with its usage behind it, `gres/gpu=6(2)`, and N where there is none:
`cpu=N(4)`. The limits of a QoS for each user and each account are printed only in the records of
users and accounts that have used it, all alike; a job in the queue counts as use.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from roost_slurm.text.limits import whole_number
from roost_slurm.text.tres import parse_counts

_QOS = re.compile(r"QOS=(.*?)\(\d+\) UsageRaw=")
_ASSOCIATION = re.compile(
    r"ClusterName=\S* Account=([^=]*) UserName=([^=]*) Partition=(\S*) Priority="
)
_USER = re.compile(r"(.*)\((\d{1,10})\)")
_PARENT = re.compile(r" ParentAccount=([^=]*)\(\d{1,20}\) ")
_PAIR = re.compile(r" ([A-Za-z]+)=(\S*)")
_BUDGET = re.compile(r"(?:(?<=,)|^)([^=,]+)=(\d{1,20})\((\d{1,20}(?:\.\d+)?)\)")
_USED = re.compile(r"(?:(?<=,)|^)([^=,]+)=\w{1,20}\((\d{1,20}(?:\.\d+)?)\)")
_ONE_BUDGET = re.compile(r"(\d{1,20})\((\d{1,20}(?:\.\d+)?)\)")
# The look behind lets a word be tried once, so that its length is not squared.
_RECORD = re.compile(r"(?<!\S)(\S*)=\{([^{}]*)\}")
_SHARES = re.compile(r" SharesRaw/Norm/Level/Factor=(\d{1,10})/")
_NO_LIMIT = 0xFFFF_FFFF
_OF_PARENT = 0x7FFF_FFFF  # Fairshare=parent


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of minutes, and how much of it was used when slurmctld was asked.

    Attributes:
        committed: what the running jobs may still use before their time limits; read where the
            limit is one on past minutes.
    """

    limit: float
    used: float
    committed: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLimits:
    """What several jobs share.

    Attributes:
        tres: by TRES name, memory in MiB; only what is limited, as with the others.
        job_count: running jobs; None: no limit.
        tres_minutes: amount times run time of all jobs so far, decaying with time.
        running_tres_minutes: amount times remaining time limit of all running jobs.
        wall_minutes: run time of all jobs so far; None: no limit.
    """

    tres: Mapping[str, float] = field(default_factory=dict)
    job_count: float | None = None
    tres_minutes: Mapping[str, Budget] = field(default_factory=dict)
    running_tres_minutes: Mapping[str, Budget] = field(default_factory=dict)
    wall_minutes: Budget | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLimits:
    """What one job may have: TRES for the whole job and on each node, time limit, least TRES.

    `tres_minutes` is amount times time limit.
    """

    tres: Mapping[str, float] = field(default_factory=dict)
    tres_per_node: Mapping[str, float] = field(default_factory=dict)
    least_tres: Mapping[str, float] = field(default_factory=dict)
    tres_minutes: Mapping[str, float] = field(default_factory=dict)
    wall_minutes: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """The limits of one QoS: of all its jobs, of each user's, of each account's, and of each job.

    Of user and account only `tres`, `job_count` and `running_tres_minutes` are read, empty before
    the first use of the QoS. The usage of minutes differs by owner and is in `minutes_used`.

    Attributes:
        minutes_used: running TRES minutes by owner, a user id or an account: from 24.05 on. Older
            releases store a limit on them, print none and do not enforce it.
    """

    name: str
    group: GroupLimits = field(default_factory=GroupLimits)
    per_user: GroupLimits = field(default_factory=GroupLimits)
    per_account: GroupLimits = field(default_factory=GroupLimits)
    per_job: JobLimits = field(default_factory=JobLimits)
    preempt_mode: str = "OFF"  # OFF: the cluster's
    minutes_used: Mapping[int | str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """An account, or a user in an account, perhaps in one partition only.

    Attributes:
        user_id, user_name: None and "": the account itself.
        partition: "" for all that have no association of their own.
        parent: account above; "" for the root account and for users, whose parent is `account`.
        max_job_count: running jobs of one user; None: no limit.
        share: its part of what the account above has, relative to the shares of that account's
            other children; None: it has none of its own (`Fairshare=parent`).
    """

    account: str
    user_id: int | None = None
    user_name: str = ""
    partition: str = ""
    parent: str = ""
    group: GroupLimits = field(default_factory=GroupLimits)
    per_job: JobLimits = field(default_factory=JobLimits)
    max_job_count: float | None = None
    share: float | None = 1.0


@dataclass(frozen=True, slots=True)
class AssocMgr:
    """All QoS by name, and all associations by account, user id and partition."""

    qos: Mapping[str, Qos] = field(default_factory=dict)
    associations: Mapping[tuple[str, int | None, str], Association] = field(default_factory=dict)

    def chain(self, account: str, user_id: int, partition: str) -> Iterator[Association]:
        """Yield a job's association and its parents, up to the root account."""
        own = self.associations.get((account, user_id, partition))
        own = own or self.associations.get((account, user_id, ""))
        if own is not None:
            yield own
        seen: set[str] = set()
        while account and account not in seen:
            seen.add(account)
            above = self.associations.get((account, None, ""))
            if above is None:
                return
            yield above
            account = above.parent


def parse_assoc_mgr(text: str) -> AssocMgr:
    """Read the output of commands.show_assoc_mgr(); lines that are neither kind are left out."""
    qos: dict[str, Qos] = {}
    associations: dict[tuple[str, int | None, str], Association] = {}
    for line in text.split("\n"):
        if line.startswith("QOS="):
            one = _qos(line)
            if one is not None:
                qos[one.name] = one
        elif line.startswith("ClusterName="):
            found = _association(line)
            if found is not None:
                associations[found.account, found.user_id, found.partition] = found
    return AssocMgr(qos, associations)


def _qos(line: str) -> Qos | None:
    match = _QOS.match(line)
    if match is None:
        return None
    own, _, others = line[match.end() :].partition(" Account Limits=")
    accounts, _, users = others.partition(" User Limits=")
    row = dict(_PAIR.findall(own))
    return Qos(
        name=match[1],
        group=_group(row),
        per_user=_each(users, "PU"),
        per_account=_each(accounts, "PA"),
        per_job=_per_job(row),
        preempt_mode=row.get("PreemptMode", "OFF").upper(),
        minutes_used={**_minutes_used(accounts, "PA"), **_minutes_used(users, "PU")},
    )


def _association(line: str) -> Association | None:
    match = _ASSOCIATION.match(line)
    if match is None:
        return None
    user = _USER.fullmatch(match[2])
    if match[2] and user is None:
        return None  # a user without an id on this machine has no jobs here
    parent = _PARENT.search(line)
    row = dict(_PAIR.findall(line[match.end() :]))
    return Association(
        account=match[1],
        user_id=int(user[2]) if user else None,
        user_name=user[1] if user else "",
        partition=match[3],
        parent=parent[1] if parent else "",
        group=_group(row),
        per_job=_per_job(row),
        max_job_count=_limit(row.get("MaxJobs", "")),
        share=_share(line[match.end() :]),
    )


def _share(text: str) -> float | None:
    match = _SHARES.search(text)
    if match is None:
        return 1.0
    return None if int(match[1]) == _OF_PARENT else float(match[1])


def _group(row: Mapping[str, str]) -> GroupLimits:
    wall = _ONE_BUDGET.fullmatch(row.get("GrpWall", ""))
    minutes = _budgets(row.get("GrpTRESMins", ""))
    if minutes:
        running = dict(_USED.findall(row.get("GrpTRESRunMins", "")))
        minutes = {
            name: Budget(budget.limit, budget.used, float(running.get(name, 0)))
            for name, budget in minutes.items()
        }
    return GroupLimits(
        tres={name: budget.limit for name, budget in _budgets(row.get("GrpTRES", "")).items()},
        job_count=_limit(row.get("GrpJobs", "")),
        tres_minutes=minutes,
        running_tres_minutes=_budgets(row.get("GrpTRESRunMins", "")),
        wall_minutes=Budget(float(wall[1]), float(wall[2])) if wall else None,
    )


def _each(records: str, suffix: str) -> GroupLimits:
    """Return the limits of the first record that has any: all users have the same ones."""
    for _, record in _RECORD.findall(records):
        row = dict(_PAIR.findall(" " + record))
        limits = _budgets(row.get(f"MaxTRES{suffix}", ""))
        minutes = _budgets(row.get(f"MaxTRESRunMins{suffix}", ""))
        job_count = _limit(row.get(f"MaxJobs{suffix}", ""))
        if limits or minutes or job_count is not None:
            return GroupLimits(
                tres={name: budget.limit for name, budget in limits.items()},
                job_count=job_count,
                running_tres_minutes={
                    name: Budget(budget.limit, 0.0) for name, budget in minutes.items()
                },
            )
    return GroupLimits()


def _minutes_used(records: str, suffix: str) -> dict[int | str, dict[str, float]]:
    """Return the limited running minutes of each user, `games(5)`, or of each account."""
    found: dict[int | str, dict[str, float]] = {}
    for owner, record in _RECORD.findall(records):
        row = dict(_PAIR.findall(" " + record))
        budgets = _budgets(row.get(f"MaxTRESRunMins{suffix}", ""))
        user = _USER.fullmatch(owner)
        if budgets and (user or suffix == "PA"):
            key = int(user[2]) if user and suffix == "PU" else owner
            found[key] = {name: budget.used for name, budget in budgets.items()}
    return found


def _per_job(row: Mapping[str, str]) -> JobLimits:
    wall = row.get("MaxWallPJ", "")
    return JobLimits(
        tres=parse_counts(row.get("MaxTRESPJ", "")),
        tres_per_node=parse_counts(row.get("MaxTRESPN", "")),
        least_tres=parse_counts(row.get("MinTRESPJ", "")),
        tres_minutes=parse_counts(row.get("MaxTRESMinsPJ", "")),
        wall_minutes=_minutes(wall),
    )


def _budgets(text: str) -> dict[str, Budget]:
    return {name: Budget(float(most), float(used)) for name, most, used in _BUDGET.findall(text)}


def _minutes(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return float(whole_number(text))
    return None


def _limit(text: str) -> float | None:
    """Return the limit of `6(3)`: 6. None for `N(3)`, and for an empty text."""
    match = _ONE_BUDGET.fullmatch(text)
    return float(match[1]) if match and int(match[1]) < _NO_LIMIT else None
