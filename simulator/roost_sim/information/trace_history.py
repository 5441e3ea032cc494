"""What the jobs of a trace teach a history of run times."""

from collections.abc import Iterator
from dataclasses import replace
from heapq import heappop, heappush
from math import inf, isfinite

from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.history_state import HistoryState
from roost_sim.traces.trace import Trace

_STARTS, _ENDS = 0, 1


def job_specs(trace: Trace) -> list[JobSpec]:
    """Return the jobs of a trace as the engine sees them.

    Where a trace names no users, its accounts stand for users: Philly's virtual clusters.
    """
    has_users = bool((trace.user_id >= 0).any())
    users = (trace.user_id if has_users else trace.account.ids).tolist()
    gpus, nodes = trace.gpu_count.tolist(), trace.node_count.tolist()
    limits_s, submits_s = trace.time_limit_s.tolist(), trace.submit_s.tolist()
    found = list[JobSpec]()
    for number in range(len(trace)):
        node_count = max(nodes[number], 1)
        shape = Shape(
            node_count=node_count,
            gpus_per_node=max(gpus[number] // node_count, 1),
            cpus_per_node=0,
        )
        found.append(
            JobSpec(
                job_id=JobId(str(number)),
                user_id=users[number],
                partition=trace.partition.of(number),
                shapes=(shape,),
                submit_s=submits_s[number],
                time_limit_s=limits_s[number] if isfinite(limits_s[number]) else None,
                name=trace.job_name.of(number),
                account=trace.account.of(number) if has_users else "",
                qos=trace.qos.of(number),
            )
        )
    return found


class PastJobs:
    """Reports the starts and ends of a trace's jobs to a history, as they were in the trace.

    Args:
        trace: the jobs.
        history: learns.
    """

    def __init__(self, trace: Trace, history: RunTimeHistory) -> None:
        self._history, self._specs = history, job_specs(trace)
        self._run_s, self._due = trace.duration_s.tolist(), list[tuple[float, int, int]]()
        ended_s, submit_s = trace.ended_s().tolist(), trace.submit_s.tolist()
        self._times_s = [
            (max(end_s - run_s, at_s), end_s)
            for end_s, run_s, at_s in zip(ended_s, self._run_s, submit_s, strict=True)
        ]

    def submit(self, number: int) -> JobSpec:
        """Schedule the start and end of a job and return it; jobs come in the trace's order."""
        start_s, end_s = self._times_s[number]
        heappush(self._due, (start_s, _STARTS, number))
        heappush(self._due, (end_s, _ENDS, number))
        return self._specs[number]

    def advance(self, until_s: float) -> Iterator[tuple[JobSpec, float, float]]:
        """Report what happened by then. Yields each job that ended: run time, and when."""
        while self._due and self._due[0][0] <= until_s:
            event_s, what, number = heappop(self._due)
            spec, run_s = self._specs[number], self._run_s[number]
            if what == _STARTS:
                self._history.begin(spec, 0.0, 1.0, event_s)
            else:
                self._history.add(spec, run_s, event_s)
                yield spec, run_s, event_s


def learned_from(trace: Trace) -> HistoryState:
    """Return what a history knows once all jobs of a trace have ended, as of engine time 0."""
    history = RunTimeHistory()
    past = PastJobs(trace, history)
    for number in range(len(trace)):
        past.submit(number)
    ends_s = [end_s for _, _, end_s in past.advance(inf)]
    state = history.state()
    return replace(state, at_s=state.at_s - max(ends_s, default=0.0), running=())
