"""A sweep: the runs of one comparison, for every policy, seed and load, independent of each other.

A case and a sweep are plain data, so that any process on any machine can perform a case and gets
the same figures.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np

from roost_sim.catalogue.compositions import find_policy
from roost_sim.errors import SimError, TraceError
from roost_sim.runs.run_document import Figure, run_document
from roost_sim.runs.simulation import Run, simulate
from roost_sim.sweeps.run_curves import Curves, HoldLog, curves_of
from roost_sim.traces.trace import Trace

# Separate the draws of jobs from the policies' draws with the same seed.
_WINDOW_STREAM, _SAMPLE_STREAM = 1, 2


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """One run of a sweep.

    Attributes:
        load: offered load to which the arrivals are scaled; None: as in the trace.
    """

    policy: str
    seed: int
    load: float | None

    def __str__(self) -> str:
        at = "" if self.load is None else f", load {self.load:g}"
        return f"{self.policy}, seed {self.seed}{at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of a case.

    Attributes:
        document: the object that `roost-sim run --json` would print, and the load.
        curves: for the report.
    """

    case: Case
    document: Mapping[str, Figure]
    curves: Curves


@dataclass(frozen=True, slots=True)
class Failed:
    """A case that failed, and why; other cases are not affected."""

    case: Case
    reason: str


Finished: TypeAlias = Done | Failed


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What all cases have in common.

    Attributes:
        template: a run of the whole trace; each case replaces policy, seed, jobs and load.
        window_jobs: consecutive jobs of a run, from a position that the seed draws, the same for
            all policies; None: all jobs.
        sample_jobs: jobs of a run, which the seed draws from the whole trace, the same for all
            policies; None: all jobs.
    """

    template: Run
    window_jobs: int | None = None
    sample_jobs: int | None = None

    def perform(self, case: Case) -> Finished:
        """Simulate one case; return Failed on any error, since it must not stop other cases."""
        try:
            return self._simulate(case)
        except SimError as error:
            return Failed(case, str(error))
        except Exception as error:  # noqa: BLE001  supervises thousands of runs
            return Failed(case, f"{type(error).__name__}: {error}")

    def jobs_of(self, case: Case) -> Trace:
        """Return the jobs of a case; the same for every policy.

        Raises:
            TraceError: too few jobs to draw, or a load is set and all jobs arrive at once.
        """
        trace = self.template.trace
        if self.window_jobs is not None:
            trace = drawn_window(trace, self.window_jobs, case.seed)
        if self.sample_jobs is not None:
            trace = drawn_sample(trace, self.sample_jobs, case.seed)
        if case.load is None:
            return trace
        return trace.at_load(case.load, self.template.cluster.gpu_count)

    def _simulate(self, case: Case) -> Done:
        policy = find_policy(case.policy)
        is_shared = replace(self.template, policy=policy).is_shared
        holds = HoldLog(self.template.cluster, is_shared)
        run = replace(
            self.template,
            trace=self.jobs_of(case),
            policy=policy,
            seed=case.seed,
            on_hold=holds,
        )
        report = simulate(run)
        document = run_document(policy.name, case.seed, report)
        return Done(
            case=case,
            document=document | {"load": case.load},
            curves=curves_of(report, run.span, holds),
        )


class SweepEngine(Protocol):
    """Performs the cases of a sweep, on this machine or on several."""

    def perform(self, sweep: Sweep, cases: Sequence[Case]) -> Generator[Finished, None, None]:
        """Yield each case once as it finishes, in any order. Closing it stops the other cases.

        Raises:
            SimError: the engine as a whole cannot work.
        """


class InProcess:
    """Performs one case after the other in this process."""

    def perform(self, sweep: Sweep, cases: Sequence[Case]) -> Generator[Finished, None, None]:
        """See SweepEngine."""
        yield from map(sweep.perform, cases)


def cases_of(
    policies: Sequence[str], seeds: Sequence[int], loads: Sequence[float | None]
) -> list[Case]:
    """Return all combinations, seeds outermost, so that an interrupted sweep has whole pairs."""
    return [Case(policy, seed, load) for seed in seeds for load in loads for policy in policies]


def drawn_sample(trace: Trace, job_count: int, seed: int) -> Trace:
    """Draw jobs from the whole trace with equal probability, like the load of a smaller cluster.

    Keeps the job mix and the span of the trace, so that the longest jobs are short beside it.

    Raises:
        TraceError: the trace has fewer jobs.
    """
    if len(trace) < job_count:
        raise TraceError(trace.source, None, f"{len(trace)} jobs are too few to draw {job_count}")
    drawn = np.zeros(len(trace), dtype=np.bool_)
    random = np.random.default_rng([_SAMPLE_STREAM, seed])
    drawn[random.permutation(len(trace))[:job_count]] = True
    return trace.where(drawn)


def drawn_window(trace: Trace, job_count: int, seed: int) -> Trace:
    """Return consecutive jobs, from a position of the trace that the seed draws.

    Raises:
        TraceError: the trace has fewer jobs.
    """
    spare = len(trace) - job_count
    if spare < 0:
        reason = f"{len(trace)} jobs are too few for a window of {job_count}"
        raise TraceError(trace.source, None, reason)
    first = int(np.random.default_rng([_WINDOW_STREAM, seed]).integers(0, spare + 1))
    position = np.arange(len(trace))
    inside = trace.where((position >= first) & (position < first + job_count))
    begin_s = float(inside.submit_s[0]) if len(inside) else 0.0
    zero_s = None if trace.epoch_of_zero_s is None else trace.epoch_of_zero_s + begin_s
    return replace(inside, submit_s=inside.submit_s - begin_s, epoch_of_zero_s=zero_s)
