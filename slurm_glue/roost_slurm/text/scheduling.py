"""How a site's Slurm schedules, of what `scontrol show config` prints."""

import contextlib
from dataclasses import dataclass

from roost_slurm.text.limits import whole_number
from roost_slurm.text.scontrol import config_row
from roost_slurm.text.times import parse_limit

_ABSENT = frozenset({"", "(null)", "none"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """Settings that decide which rules hold.

    Attributes:
        has_slurmdbd: whether associations and QoS are kept at all.
        enforced: AccountingStorageEnforce: "associations", "limits", "qos", "safe", ...
        preempt_type: "preempt/none", "preempt/qos" or "preempt/partition_prio".
        preempt_modes: of PreemptMode, upper case: "REQUEUE", "CANCEL", "SUSPEND", "GANG", "OFF".
        preempt_exempt_s: for so long a job runs before it may be preempted, unless its QoS says so.
        priority_type: "priority/multifactor" or "priority/basic".
        age_weight, fair_share_weight: the most that these add to a priority; None: unknown.
        resume_timeout_s: how long a node may take to come back.
        hides_nodes: whether a cloud node may be shown by no command while it is powered down.
    """

    has_slurmdbd: bool = False
    enforced: frozenset[str] = frozenset()
    preempt_type: str = "preempt/none"
    preempt_modes: frozenset[str] = frozenset({"OFF"})
    preempt_exempt_s: float = 0.0
    priority_type: str = ""
    age_weight: int | None = None
    fair_share_weight: int | None = None
    scheduler_parameters: tuple[str, ...] = ()
    resume_timeout_s: float | None = None
    hides_nodes: bool = False

    @property
    def enforces_limits(self) -> bool:
        """Return whether limits of QoS and associations hold."""
        return not self.enforced.isdisjoint({"limits", "safe", "all"})

    @property
    def is_safe(self) -> bool:
        """Return whether a job starts only if its budget of minutes lasts to its time limit."""
        return not self.enforced.isdisjoint({"safe", "all"})


def parse_scheduling(text: str) -> Scheduling:
    """Read `scontrol show config`; what is missing counts as Slurm's default."""
    row = config_row(text)
    return Scheduling(
        has_slurmdbd=row.get("AccountingStorageType", "").endswith("slurmdbd"),
        enforced=_words(row.get("AccountingStorageEnforce", "").lower()),
        preempt_type=row.get("PreemptType", "(null)").replace("(null)", "preempt/none"),
        preempt_modes=_words(row.get("PreemptMode", "OFF").upper()),
        preempt_exempt_s=_duration(row.get("PreemptExemptTime", "")),
        priority_type=row.get("PriorityType", ""),
        age_weight=_whole(row.get("PriorityWeightAge", "")),
        fair_share_weight=_whole(row.get("PriorityWeightFairShare", "")),
        scheduler_parameters=tuple(
            word for word in row.get("SchedulerParameters", "").split(",") if word not in _ABSENT
        ),
        resume_timeout_s=_seconds(row.get("ResumeTimeout", "")),
        hides_nodes=row.get("ResumeProgram", "") not in _ABSENT
        and "cloud" not in _words(row.get("PrivateData", "").lower()),
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split(",")) - _ABSENT


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 20 else None


def _seconds(text: str) -> float | None:
    """Read `300 sec`; None for INFINITE, NONE and what is missing."""
    number = text.partition(" ")[0]
    with contextlib.suppress(ValueError):
        return float(whole_number(number))
    return None


def _duration(text: str) -> float:
    with contextlib.suppress(ValueError):
        return parse_limit(text) or 0.0
    return 0.0
