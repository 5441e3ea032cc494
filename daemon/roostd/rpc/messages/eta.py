"""Expected starts and ends in the words of operator.proto."""

from collections.abc import Iterator
from contextlib import suppress
from math import isfinite

from roost_engine.domain.errors import UnknownJob
from roost_engine.domain.model import JobId
from roost_engine.forecast.forecast import INTERVAL_FRAC, Forecast, JobForecast, Quantiles
from roost_engine.job_record import JobRecord, JobState
from roost_proto.v1 import operator_pb2 as pb
from roostd.rpc.errors import NoForecast
from roostd.rpc.messages.jobs import JOB_STATES
from roostd.state import DaemonState

_BEFORE_START = (JobState.WAITING, JobState.CLEARING, JobState.PLACING)
_LATE_INTERVALS = 3.0  # a forecast older than so many intervals is stale


def response(
    state: DaemonState, job_id: JobId | None, only_owner: int | None = None
) -> pb.GetEtaResponse:
    """Return what is expected of a job; None: all but `etas`, which are read one by one.

    Args:
        state: the daemon's.
        job_id: the job, or None.
        only_owner: see `etas`.

    Raises:
        UnknownJob: there is no such job.
        NoForecast: nothing is known of it; the text says why, and what to do.
    """
    found = _forecast(state)
    age_s = max(state.clock.now_s() - found.at_s, 0.0)
    answer = pb.GetEtaResponse(
        age_s=age_s,
        play_count=found.play_count,
        interval_frac=INTERVAL_FRAC,
        fault=_fault(state, age_s),
    )
    if job_id is not None:
        answer.etas.append(_eta(state, job_id, _known(state, found, job_id), age_s))
    else:
        missing = (one for one in state.engine.waiting() if one not in found.jobs)
        answer.missing_count = sum(only_owner in (None, state.user_of(one)) for one in missing)
    return answer


def etas(state: DaemonState, only_owner: int | None = None) -> Iterator[pb.Eta]:
    """Yield what is expected of every job that waits. The state may change between two of them.

    Args:
        state: the daemon's.
        only_owner: the user whose jobs alone are listed; None: those of all users.

    Raises:
        NoForecast: there is none.
    """
    found, waiting = _forecast(state), set(state.engine.waiting())
    for job_id, expected in found.jobs.items():
        if job_id in waiting and only_owner in (None, state.user_of(job_id)):
            with suppress(UnknownJob):  # it has left meanwhile
                age_s = max(state.clock.now_s() - found.at_s, 0.0)
                yield _eta(state, job_id, expected, age_s)


def _forecast(state: DaemonState) -> Forecast:
    eta = state.config.eta
    if not eta.enabled:
        raise NoForecast("forecasts are off; set eta.enabled: true in roostd.yaml")
    if state.forecast is None:
        why = state.forecast_fault or f"the first one takes up to {eta.interval_s:g} s"
        raise NoForecast(f"there is no forecast yet: {why}; ask again later")
    return state.forecast


def _known(state: DaemonState, found: Forecast, job_id: JobId) -> JobForecast:
    """Return what is expected of one job."""
    if job_id in state.unmanaged:
        left = state.unmanaged[job_id]
        if left.is_blocked:
            raise NoForecast(
                f"job {job_id} has no forecast: {left.reason}; it gets one once that has changed"
            )
        raise NoForecast(
            f"job {job_id} is left to Slurm: {left.reason}; ask squeue --start -j {job_id}"
        )
    if job_id in state.left_queue:
        raise NoForecast(f"job {job_id} has left Slurm's queue; ask sacct -j {job_id}")
    record = state.engine.find(job_id)
    if record.state is JobState.ENDED:
        raise NoForecast(f"job {job_id} has ended")
    if record.state is JobState.RELEASED:
        raise NoForecast(f"job {job_id} was released to Slurm; ask squeue --start -j {job_id}")
    if not isinstance(record, JobRecord) and not any(each.gpu_indices for each in record.shares):
        raise NoForecast(f"job {job_id} asks for no GPUs; there are forecasts of GPU jobs only")
    if job_id not in found.jobs:
        next_s = state.config.eta.interval_s
        raise NoForecast(f"job {job_id} came after the last forecast; ask again in {next_s:g} s")
    return found.jobs[job_id]


def _fault(state: DaemonState, age_s: float) -> str:
    if state.forecast_fault:
        return state.forecast_fault
    due_s = _LATE_INTERVALS * state.config.eta.interval_s
    return f"the next one is overdue after {due_s:g} s" if age_s > due_s else ""


def _eta(state: DaemonState, job_id: JobId, expected: JobForecast, age_s: float) -> pb.Eta:
    record = state.engine.find(job_id)
    has_start = expected.start is not None and record.state in _BEFORE_START
    return pb.Eta(
        job_id=job_id,
        state=JOB_STATES[record.state],
        gpu_count=record.spec.gpu_count
        if isinstance(record, JobRecord)
        else sum(len(share.gpu_indices) for share in record.shares),
        start=_time(expected.start, age_s) if has_start and expected.start else None,
        end=_time(expected.end, age_s),
    )


def _time(expected: Quantiles, age_s: float) -> pb.ExpectedTime:
    """Return a time in seconds from now rather than from the forecast."""
    low_s, median_s, high_s = (
        max(time_s - age_s, 0.0) for time_s in (expected.low_s, expected.median_s, expected.high_s)
    )
    return pb.ExpectedTime(
        low_s=low_s,
        median_s=median_s if isfinite(median_s) else None,
        high_s=high_s if isfinite(high_s) else None,
    )
