"""Turns a trace into jobs that the engine can be asked to place."""

from collections.abc import Iterator, Mapping

from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_sim.traces.arrival import Arrival
from roost_sim.traces.shapes import JobShapeRule, ShapeRule
from roost_sim.traces.trace import UNKNOWN, Trace

_STRETCH_COUNT = 10_000


def job_ids(trace: Trace) -> list[JobId]:
    """The id of each job: its place in the trace, from 1."""
    return [JobId(str(number)) for number in range(1, len(trace) + 1)]


def arrivals(
    trace: Trace,
    shapes: ShapeRule,
    gpus_per_node: int,
    partition: str,
    models: Mapping[JobId, str] | None = None,
    shapes_by_job: JobShapeRule | None = None,
    limit_s: Mapping[JobId, float] | None = None,
) -> Iterator[Arrival]:
    """Make the jobs of a trace, one at a time, in order of submission.

    A trace that says on how many nodes a job ran is followed where its GPUs divide among them.

    Args:
        trace: what arrives.
        shapes: how GPU counts become shapes.
        gpus_per_node: of the largest node.
        partition: that every job is submitted to.
        models: what jobs say that they train; those left out say nothing.
        shapes_by_job: in place of `shapes` and of what the trace says, where the policy tells
            jobs apart.
        limit_s: time limits of jobs; those left out have none.
    """
    named, limits = models or {}, limit_s or {}
    for job_id, submit_s, duration_s, gpu_count, node_count, user_id in _rows(trace):
        accepted = (
            shapes_by_job(job_id, gpu_count, gpus_per_node)
            if shapes_by_job is not None
            else _told(gpu_count, node_count, gpus_per_node) or shapes(gpu_count, gpus_per_node)
        )
        spec = JobSpec(
            job_id=job_id,
            user_id=user_id,
            partition=partition,
            shapes=accepted,
            submit_s=submit_s,
            time_limit_s=limits.get(job_id),
            model=named.get(job_id, ""),
        )
        yield Arrival(spec=spec, work_s=duration_s, gpu_count=gpu_count)


def _rows(trace: Trace) -> Iterator[tuple[JobId, float, float, int, int, int]]:
    """The columns job by job, a stretch at a time: a trace may be longer than memory is large."""
    for begin in range(0, len(trace), _STRETCH_COUNT):
        end = min(begin + _STRETCH_COUNT, len(trace))
        yield from zip(
            map(JobId, map(str, range(begin + 1, end + 1))),
            trace.submit_s[begin:end].tolist(),
            trace.duration_s[begin:end].tolist(),
            trace.gpu_count[begin:end].tolist(),
            trace.node_count[begin:end].tolist(),
            trace.user_id[begin:end].tolist(),
            strict=True,
        )


def _told(gpu_count: int, node_count: int, gpus_per_node: int) -> tuple[Shape, ...]:
    each, rest = divmod(gpu_count, node_count) if node_count != UNKNOWN and node_count else (0, 1)
    if rest or not 0 < each <= gpus_per_node:
        return ()
    return (Shape(node_count=node_count, gpus_per_node=each, cpus_per_node=each),)
