"""What `roostctl report --json` prints, and roostd's page shows."""

import math
from typing import TypedDict

from roost_formats.report.figures import Estimate, GroupFigures, GroupPair, ReportFigures

_DIGITS, _DECIMALS = 6, 3


class EstimateDocument(TypedDict):
    """A figure and its 95 % interval."""

    value: float | None
    low: float | None
    high: float | None


class GroupDocument(TypedDict):
    """The figures of some jobs."""

    job_count: int
    started_count: int
    gpu_hours: float
    chosen_count: int
    same_frac: EstimateDocument
    real_link_frac: EstimateDocument
    planned_link_frac: EstimateDocument
    stock_link_frac: EstimateDocument
    planned_gain_frac: EstimateDocument
    stock_gain_frac: EstimateDocument
    sooner_count: int
    later_count: int
    sooner_s: EstimateDocument
    waiting_gpu_hours: EstimateDocument
    running_gpu_hours: EstimateDocument


class NamedGroupDocument(TypedDict):
    """The figures of a partition's or a user's jobs."""

    name: str
    watched: GroupDocument | None
    enforced: GroupDocument | None


class LimitDocument(TypedDict):
    """One of Slurm's limits."""

    limit: str
    job_count: int
    wait_s: float


class LeftDocument(TypedDict):
    """Why Roost chose nothing for some jobs."""

    reason: str
    job_count: int


class ReportDocument(TypedDict):
    """`roostctl report --json`."""

    schema: str
    since_epoch_s: float
    until_epoch_s: float
    job_count: int
    watched: GroupDocument | None
    enforced: GroupDocument | None
    limits: list[LimitDocument]
    left: list[LeftDocument]
    partitions: list[NamedGroupDocument]
    users: list[NamedGroupDocument]


def report_document(found: ReportFigures) -> ReportDocument:
    """Schema roost.report/1."""
    return {
        "schema": "roost.report/1",
        "since_epoch_s": round(found.since_s, 3),
        "until_epoch_s": round(found.until_s, 3),
        "job_count": found.job_count,
        "watched": _group(found.watched),
        "enforced": _group(found.enforced),
        "limits": [
            {"limit": one.limit, "job_count": one.job_count, "wait_s": one.wait_s}
            for one in found.limits
        ],
        "left": [{"reason": reason, "job_count": count} for reason, count in found.left],
        "partitions": [_named(one) for one in found.partitions],
        "users": [_named(one) for one in found.users],
    }


def _named(pair: GroupPair) -> NamedGroupDocument:
    return {
        "name": pair.name,
        "watched": _group(pair.watched),
        "enforced": _group(pair.enforced),
    }


def _group(found: GroupFigures | None) -> GroupDocument | None:
    if found is None:
        return None
    return {
        "job_count": found.job_count,
        "started_count": found.started_count,
        "gpu_hours": round(found.gpu_hours, _DECIMALS),
        "chosen_count": found.chosen_count,
        "same_frac": _estimate(found.same_frac),
        "real_link_frac": _estimate(found.real_link_frac),
        "planned_link_frac": _estimate(found.planned_link_frac),
        "stock_link_frac": _estimate(found.stock_link_frac),
        "planned_gain_frac": _estimate(found.planned_gain_frac),
        "stock_gain_frac": _estimate(found.stock_gain_frac),
        "sooner_count": found.sooner_count,
        "later_count": found.later_count,
        "sooner_s": _estimate(found.sooner_s),
        "waiting_gpu_hours": _estimate(found.waiting_gpu_hours),
        "running_gpu_hours": _estimate(found.running_gpu_hours),
    }


def _estimate(found: Estimate) -> EstimateDocument:
    return {"value": _digits(found.value), "low": _digits(found.low), "high": _digits(found.high)}


def _digits(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(f"{value:.{_DIGITS}g}")
