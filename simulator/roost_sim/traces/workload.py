"""The workload of a simulation: the jobs of a trace as arrivals for the driver."""

from collections.abc import Iterator, Mapping
from functools import cache
from math import isfinite
from typing import TypeAlias

from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_sim.traces.arrival import Arrival
from roost_sim.traces.shapes import JobShapeRule, ShapeRule
from roost_sim.traces.trace import UNKNOWN, Trace

_STRETCH_COUNT = 10_000


def job_ids(trace: Trace) -> list[JobId]:
    """Return the id of each job: its position in the trace, from 1."""
    return [JobId(str(number)) for number in range(1, len(trace) + 1)]


def arrivals(
    trace: Trace,
    shapes: ShapeRule,
    gpus_per_node: int,
    partition: str,
    models: Mapping[JobId, str] | None = None,
    shapes_by_job: JobShapeRule | None = None,
    limit_s: Mapping[JobId, float] | None = None,
    sharing_bytes: Mapping[JobId, int] | None = None,
) -> Iterator[Arrival]:
    """Yield the jobs of a trace as arrivals, in order of submission.

    A job runs on the number of nodes in the trace, if known and if its GPUs divide evenly. Every
    job may be stopped, and loses no work by it: only its restart takes time.

    Args:
        trace: the jobs.
        shapes: how GPU counts become shapes.
        gpus_per_node: of the largest node.
        partition: that every job is submitted to; the partition in the trace has no effect.
        models: the models that jobs name; a missing job names none.
        shapes_by_job: in place of `shapes` and of the trace's nodes, for a policy whose shapes
            depend on the job.
        limit_s: time limits in place of those in the trace; None: those in the trace.
        sharing_bytes: what each job that may share its GPUs needs of each; a missing job does not
            share.
    """
    named, opted_in = models or {}, sharing_bytes or {}
    for row in _rows(trace):
        job_id, submit_s, work_s, gpu_count, node_count, user_id, traced_s, name, account, qos = row
        accepted = (
            shapes_by_job(job_id, gpu_count, gpus_per_node)
            if shapes_by_job is not None
            else _as_traced(gpu_count, node_count, gpus_per_node)
            or shapes(gpu_count, gpus_per_node)
        )
        spec = JobSpec(
            job_id=job_id,
            user_id=user_id,
            partition=partition,
            shapes=accepted,
            submit_s=submit_s,
            time_limit_s=_limit(traced_s) if limit_s is None else limit_s.get(job_id),
            name=name,
            account=account,
            qos=qos,
            model=named.get(job_id, ""),
            checkpoint_s=0.0,
            shares_gpus=job_id in opted_in,
            gpu_memory_bytes=opted_in.get(job_id, 0),
        )
        yield Arrival(spec=spec, work_s=work_s, gpu_count=gpu_count)


def _limit(traced_s: float) -> float | None:
    """Return a limit as the engine has it: None where there is none, or it is unknown."""
    return traced_s if isfinite(traced_s) else None


_Row: TypeAlias = tuple[JobId, float, float, int, int, int, float, str, str, str]


def _rows(trace: Trace) -> Iterator[_Row]:
    """Yield the columns job by job; lists of a whole trace may not fit into memory."""
    for begin in range(0, len(trace), _STRETCH_COUNT):
        end = min(begin + _STRETCH_COUNT, len(trace))
        yield from zip(
            map(JobId, map(str, range(begin + 1, end + 1))),
            trace.submit_s[begin:end].tolist(),
            trace.duration_s[begin:end].tolist(),
            trace.gpu_count[begin:end].tolist(),
            trace.node_count[begin:end].tolist(),
            trace.user_id[begin:end].tolist(),
            trace.time_limit_s[begin:end].tolist(),
            trace.job_name.between(begin, end),
            trace.account.between(begin, end),
            trace.qos.between(begin, end),
            strict=True,
        )


@cache
def _as_traced(gpu_count: int, node_count: int, gpus_per_node: int) -> tuple[Shape, ...]:
    each, rest = divmod(gpu_count, node_count) if node_count != UNKNOWN and node_count else (0, 1)
    if rest or not 0 < each <= gpus_per_node:
        return ()
    return (Shape(node_count=node_count, gpus_per_node=each, cpus_per_node=each),)
