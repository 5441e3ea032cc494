"""What `roostctl eta --json` prints."""

from typing import TypedDict

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.values import finite, job_state_word, real


class TimeDocument(TypedDict):
    """A time that is not certain, in seconds from now; null: later than the forecast looks."""

    low_s: float | None
    median_s: float | None
    high_s: float | None


class JobEtaDocument(TypedDict):
    """What is expected of one job; `start` is null once it runs."""

    job_id: str
    state: str | None
    gpu_count: int
    start: TimeDocument | None
    end: TimeDocument


class EtaDocument(TypedDict):
    """`roostctl eta --json`."""

    schema: str
    age_s: float | None
    play_count: int
    interval_frac: float | None
    fault: str
    missing_count: int
    etas: list[JobEtaDocument]


def eta_document(found: pb.GetEtaResponse) -> EtaDocument:
    """One answer, with one job or all that wait."""
    return {
        "schema": "roost.eta/1",
        "age_s": finite(found.age_s),
        "play_count": found.play_count,
        "interval_frac": finite(found.interval_frac),
        "fault": found.fault,
        "missing_count": found.missing_count,
        "etas": [_job(one) for one in found.etas],
    }


def _job(one: pb.Eta) -> JobEtaDocument:
    return {
        "job_id": one.job_id,
        "state": job_state_word(one.state),
        "gpu_count": one.gpu_count,
        "start": time_document(one.start) if one.HasField("start") else None,
        "end": time_document(one.end),
    }


def time_document(time: pb.ExpectedTime) -> TimeDocument:
    """Return a time with its bounds."""
    return {
        "low_s": finite(time.low_s),
        "median_s": real(time, "median_s"),
        "high_s": real(time, "high_s"),
    }
