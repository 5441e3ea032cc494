"""What `roostctl interference --json` prints."""

from typing import TypedDict

from roost_proto.v1 import interference_pb2 as pb
from roostctl.documents.values import finite


class InterferenceRowDocument(TypedDict):
    """A kind of job beside another, or at one placement where `beside_user_id` is null."""

    user_id: int
    job_name: str
    beside_user_id: int | None
    beside_job_name: str | None
    level: str
    residual: float | None
    error: float | None
    report_count: float | None
    predicted: float | None
    observed: float | None
    from_activity: bool


class InterferenceKindDocument(TypedDict):
    """A kind of job in all."""

    user_id: int
    job_name: str
    residual: float | None
    error: float | None
    report_count: float | None
    from_activity: bool


class SharedPairDocument(TypedDict):
    """A pair of models on shared GPUs, of one user's jobs."""

    user_id: int
    model: str
    beside: str
    measured: float | None
    corrected: float | None
    run_count: int
    is_bad: bool


class InterferenceDocument(TypedDict):
    """`roostctl interference --json`."""

    schema: str
    model: str | None
    decides: bool
    correcting_count: int
    fault: str
    row_count: int
    kind_count: int
    rows: list[InterferenceRowDocument]
    kinds: list[InterferenceKindDocument]
    shared_pairs: list[SharedPairDocument]


def interference_document(found: pb.GetInterferenceResponse) -> InterferenceDocument:
    """One answer."""
    return {
        "schema": "roost.interference/1",
        "model": found.model or None,
        "decides": found.decides,
        "correcting_count": found.correcting_count,
        "fault": found.fault,
        "row_count": found.row_count,
        "kind_count": found.kind_count,
        "rows": [_row(one) for one in found.rows],
        "kinds": [_kind(one) for one in found.kinds],
        "shared_pairs": [_pair(one) for one in found.shared_pairs],
    }


def _row(one: pb.InterferenceRow) -> InterferenceRowDocument:
    has_other = one.HasField("beside_user_id")
    return {
        "user_id": one.user_id,
        "job_name": one.job_name,
        "beside_user_id": one.beside_user_id if has_other else None,
        "beside_job_name": one.beside_job_name if has_other else None,
        "level": one.level,
        "residual": finite(one.residual, 4),
        "error": finite(one.error, 4),
        "report_count": finite(one.report_count, 4),
        "predicted": finite(one.predicted, 4),
        "observed": finite(one.observed, 4),
        "from_activity": one.from_activity,
    }


def _kind(one: pb.InterferenceKind) -> InterferenceKindDocument:
    return {
        "user_id": one.user_id,
        "job_name": one.job_name,
        "residual": finite(one.residual, 4),
        "error": finite(one.error, 4),
        "report_count": finite(one.report_count, 4),
        "from_activity": one.from_activity,
    }


def _pair(one: pb.SharedPair) -> SharedPairDocument:
    return {
        "user_id": one.user_id,
        "model": one.model,
        "beside": one.beside,
        "measured": finite(one.measured, 4),
        "corrected": finite(one.corrected, 4),
        "run_count": one.run_count,
        "is_bad": one.is_bad,
    }
