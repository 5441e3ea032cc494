"""Tuning: searches the delay gate's numbers on one part of a trace, and evaluates them on the next.

A coordinate search: one number at a time is varied around the best setting so far, in the order of
the grid; there are few numbers, and they hardly interact. A number is changed only if that gains
more than LEAST_GAIN, to limit overfitting. What counts is the gain on the next part of the trace.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np

from roost_sim.catalogue.composition import Composition
from roost_sim.errors import SimError, TraceError
from roost_sim.policies.gate.delay_gates import name_of
from roost_sim.runs.simulation import Run
from roost_sim.sweeps.intervals import SeedMean, ratio_of
from roost_sim.sweeps.sweep import Case, Done, Failed, Finished, Sweep, SweepEngine
from roost_sim.traces.trace import Trace

GRID: Mapping[str, tuple[float, ...]] = {
    "delay_weight": (0.25, 0.5, 1.0, 2.0, 4.0),
    "longest_s": (1_800.0, 7_200.0, 28_800.0, 86_400.0),
    "quantile_frac": (0.8, 0.9, 0.95, 0.99),
    "crowding_weight": (0.0, 0.5, 1.0, 2.0),
    "half_life_s": (21_600.0, 86_400.0, 345_600.0),
}
LEAST_GAIN = 0.003  # in the mean ratio; a smaller gain is not worth a configuration key
METRIC = "avg_jct_s"
_OPEN = "open"
_MIDDLE_FRAC = 0.5

OnFinished = Callable[[Finished], None]


class TuningError(SimError):
    """A run failed, so that no comparison is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The result of tuning. Ratios are of average job completion time to that without a gate.

    Attributes:
        numbers: the numbers that differ from the defaults.
        searched: ratio of the tuned gate on the part that it was tuned on.
        tuned, default: ratios of the tuned gate and of the defaults on the next part.
    """

    numbers: Mapping[str, float]
    searched: SeedMean
    tuned: SeedMean
    default: SeedMean


@dataclass(slots=True)
class Tuner:
    """One search.

    Attributes:
        sweep: its template has the whole trace.
        policy: its gate is tuned, its other parts stay.
        seeds: of every comparison.
        load: as in Case.
        engine: performs the runs.
        on_finished: called with every finished run.
        grid: values to try, by number.
    """

    sweep: Sweep
    policy: Composition
    seeds: Sequence[int]
    load: float | None
    engine: SweepEngine
    on_finished: OnFinished = lambda finished: None
    grid: Mapping[str, Sequence[float]] = field(default_factory=lambda: GRID)

    def run_count(self, defaults: Mapping[str, float]) -> int:
        """Return the number of runs of a search."""
        tries = sum(value != defaults[key] for key, values in self.grid.items() for value in values)
        return (tries + 2 + 3) * len(self.seeds)

    def tune(self, defaults: Mapping[str, float]) -> Tuned:
        """Search on the first half of the jobs, evaluate on the second.

        Args:
            defaults: the gate's default of every number in the grid.

        Raises:
            TuningError: a run failed.
            TraceError: there are too few jobs.
        """
        first, second = (replace(self.sweep, template=run) for run in self._halves())
        names = [_OPEN, name_of({})]
        jct_s = self._mean_by_gate(first, names)
        best: dict[str, float] = {}
        for key, values in self.grid.items():
            tries = [best | {key: value} for value in values if value != defaults[key]]
            jct_s |= self._mean_by_gate(first, [name_of(numbers) for numbers in tries])
            now = _ratio(jct_s, name_of(best)).mean
            ratios = [_ratio(jct_s, name_of(numbers)).mean for numbers in tries]
            if ratios and min(ratios) < now - LEAST_GAIN:
                best = tries[ratios.index(min(ratios))]
        searched = _ratio(jct_s, name_of(best))
        later = self._mean_by_gate(second, [*dict.fromkeys((*names, name_of(best)))])
        return Tuned(
            numbers=best,
            searched=searched,
            tuned=_ratio(later, name_of(best)),
            default=_ratio(later, name_of({})),
        )

    def _halves(self) -> Iterator[Run]:
        template = self.sweep.template
        for begin_frac in (0.0, _MIDDLE_FRAC):
            yield replace(template, trace=stretch(template.trace, begin_frac, _MIDDLE_FRAC))

    def _mean_by_gate(self, sweep: Sweep, gates: Sequence[str]) -> dict[str, list[float]]:
        """Average job completion times of each gate, one for each seed."""
        policy = {gate: self._with_gate(gate) for gate in gates}
        cases = [Case(policy[gate], seed, self.load) for seed in self.seeds for gate in gates]
        found: dict[Case, float] = {}
        with closing(self.engine.perform(sweep, cases)) as running:
            for finished in running:
                self.on_finished(finished)
                found[finished.case] = _metric(finished)
        return {
            gate: [found[Case(policy[gate], seed, self.load)] for seed in self.seeds]
            for gate in gates
        }

    def _with_gate(self, gate: str) -> str:
        parts = self.policy.order, self.policy.placement, gate, self.policy.preemption
        return "+".join(parts)


def stretch(trace: Trace, begin_frac: float, length_frac: float) -> Trace:
    """Return consecutive jobs of a trace, the first at time 0.

    Raises:
        TraceError: the part has no job.
    """
    begin = int(len(trace) * begin_frac)
    end = begin + int(len(trace) * length_frac)
    if end <= begin:
        raise TraceError(trace.source, None, f"{len(trace)} jobs are too few to tune on")
    position = np.arange(len(trace))
    part = trace.where((position >= begin) & (position < end))
    begin_s = float(part.submit_s[0])
    zero_s = None if trace.epoch_of_zero_s is None else trace.epoch_of_zero_s + begin_s
    return replace(part, submit_s=part.submit_s - begin_s, epoch_of_zero_s=zero_s)


def _metric(finished: Finished) -> float:
    if isinstance(finished, Failed):
        raise TuningError(f"{finished.case}: {finished.reason}")
    assert isinstance(finished, Done)
    value = finished.document[METRIC]
    if not isinstance(value, int | float):
        raise TuningError(f"{finished.case}: no job was measured")
    return float(value)


def _ratio(jct_s: Mapping[str, list[float]], gate: str) -> SeedMean:
    found = ratio_of(jct_s[gate], jct_s[_OPEN])
    assert found is not None
    return found
