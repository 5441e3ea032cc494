"""sweeps.tuning and `roost-sim tune`: searched on one half of a trace, judged on the other."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.cluster_file import load_cluster
from roost_sim.errors import SimError
from roost_sim.policies.part_numbers import parse_numbers
from roost_sim.runs.simulation import Run
from roost_sim.sweeps.run_curves import Curves
from roost_sim.sweeps.sweep import Case, Done, Failed, Finished, Sweep
from roost_sim.sweeps.tuning import GRID, Tuner, stretch
from roost_sim.traces.trace import Trace, make_trace

DEFAULTS = {key: values[1] for key, values in GRID.items()}
FIRST_S = 50.0
NO_CURVES = Curves(
    jct_s=[], end_s=0.0, queue=[], heat=[], heat_names=[], tier_counts=(0, 0, 0), left_out=[]
)


def trace(job_count: int = 10) -> Trace:
    """Jobs of 50 s in the first half, of 60 s in the second."""
    return make_trace(
        "made up",
        [number * 100.0 for number in range(job_count)],
        [FIRST_S if number < job_count // 2 else 60.0 for number in range(job_count)],
        np.full(job_count, 8, dtype=np.int32),
    )


@dataclass
class MadeUp:
    """Answers at once with a job time that it is given a rule for."""

    jct_s: Callable[[str, int, float], float | None]
    asked: list[str] = field(default_factory=list)

    def perform(self, sweep: Sweep, cases: Sequence[Case]) -> Generator[Finished, None, None]:
        first_s = float(sweep.template.trace.duration_s[0])
        for case in cases:
            gate = case.policy.split("+")[2]
            self.asked.append(gate)
            found = self.jct_s(gate, case.seed, first_s)
            if found is None:
                yield Failed(case, "it broke")
            else:
                yield Done(case=case, document={"avg_jct_s": found}, curves=NO_CURVES)


def tuner(engine: MadeUp, seeds: tuple[int, ...] = (0, 1)) -> Tuner:
    template = Run(trace=trace(), cluster=load_cluster("small"), policy=find_policy("fifo"))
    return Tuner(
        sweep=Sweep(template=template),
        policy=find_policy("sjf"),
        seeds=seeds,
        load=None,
        engine=engine,
    )


def test_finds_what_each_number_gains() -> None:
    def jct_s(gate: str, seed: int, first_s: float) -> float:
        numbers = parse_numbers(gate)
        worse = 0 if gate == "open" else -5
        worse -= 10 * (numbers.get("delay_weight") == 0.25)
        worse -= 20 * (numbers.get("quantile_frac") == 0.99)
        return 100.0 * (1 + seed) * (1 + worse / 100)

    tuned = tuner(MadeUp(jct_s)).tune(DEFAULTS)
    assert tuned.numbers == {"delay_weight": 0.25, "quantile_frac": 0.99}
    assert tuned.searched.mean == pytest.approx(0.65)
    assert tuned.default.mean == pytest.approx(0.95)


def test_noise_turns_nothing() -> None:
    def jct_s(gate: str, seed: int, first_s: float) -> float:
        return 100.0 - 0.2 * (gate != "delay")

    assert tuner(MadeUp(jct_s)).tune(DEFAULTS).numbers == {}


def test_what_was_chosen_is_judged_on_the_jobs_it_has_not_seen() -> None:
    def jct_s(gate: str, seed: int, first_s: float) -> float:
        if first_s == FIRST_S:
            return 50.0 if "longest_s=86400" in gate else 100.0
        return 130.0 if "longest_s=86400" in gate else 100.0

    tuned = tuner(MadeUp(jct_s)).tune(DEFAULTS)
    assert tuned.numbers == {"longest_s": 86_400.0}
    assert tuned.searched.mean == pytest.approx(0.5)
    assert tuned.tuned.mean == pytest.approx(1.3)


def test_keeps_the_other_parts_of_the_policy() -> None:
    policies = set[str]()

    class Listening(MadeUp):
        def perform(self, sweep: Sweep, cases: Sequence[Case]) -> Generator[Finished, None, None]:
            policies.update(case.policy.replace(case.policy.split("+")[2], "G") for case in cases)
            yield from super().perform(sweep, cases)

    tuner(Listening(lambda gate, seed, first_s: 1.0)).tune(DEFAULTS)
    assert policies == {"sjf+consolidation+G+none"}


def test_counts_its_runs_beforehand() -> None:
    engine = MadeUp(lambda gate, seed, first_s: 1.0)
    subject = tuner(engine)
    assert len(engine.asked) == 0
    subject.tune(DEFAULTS)
    most = subject.run_count(DEFAULTS)
    assert most - 2 <= len(engine.asked) <= most  # the tuned gate may be the default


def test_a_run_that_fails_ends_the_search() -> None:
    with pytest.raises(SimError, match="it broke"):
        tuner(MadeUp(lambda gate, seed, first_s: None)).tune(DEFAULTS)


def test_a_stretch_begins_at_0() -> None:
    found = stretch(trace(10), 0.5, 0.5)
    assert found.submit_s.tolist() == [0, 100, 200, 300, 400]


def test_too_short_a_trace_is_refused() -> None:
    with pytest.raises(SimError, match="too few to tune on"):
        stretch(trace(1), 0.0, 0.5)
