"""Running a sweep to its end, or giving it up half-way."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.simulator.sweeps.cases import Scripted, sweep, template

from roost_sim.sweeps.results_file import facts_of, read_results
from roost_sim.sweeps.sweep import Case, Finished, InProcess, Sweep, cases_of
from roost_sim.sweeps.sweep_runner import collect

SCRIPTED = Scripted(template=template())
CASES = cases_of(["works", "fails"], [0, 1, 2], [None])


@dataclass
class CountingMeter:
    """Remembers what it was told."""

    told: list[object] = field(default_factory=list)

    def begin(self, count: int, ready: int) -> None:
        self.told.append((count, ready))

    def advance(self, finished: Finished) -> None:
        self.told.append(finished.case)


@dataclass
class Interrupted:
    """An engine that is interrupted by Ctrl-C after so many cases."""

    after: int
    is_closed: bool = False

    def perform(self, sweep: Sweep, cases: Sequence[Case]) -> Generator[Finished, None, None]:
        try:
            for case in cases[: self.after]:
                yield sweep.perform(case)
            raise KeyboardInterrupt
        finally:
            self.is_closed = True


def test_all_cases_are_run_and_failures_kept_apart() -> None:
    meter = CountingMeter()
    collected = collect(InProcess(), SCRIPTED, CASES, None, meter)
    assert [run.case for run in collected.done] == CASES[::2]
    assert [run.case for run in collected.failed] == CASES[1::2]
    assert meter.told == [(6, 0), *CASES]
    assert not collected.is_interrupted


def test_an_interrupted_sweep_keeps_its_runs_and_continues_from_them(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    engine = Interrupted(after=3)
    first = collect(engine, SCRIPTED, CASES, path, CountingMeter())
    assert first.is_interrupted
    assert engine.is_closed
    assert [run.case for run in first.done] == [CASES[0], CASES[2]]
    assert read_results(path, facts_of(SCRIPTED)) == first.done

    meter = CountingMeter()
    second = collect(InProcess(), SCRIPTED, CASES, path, meter)
    # What failed is tried again; what is done is not.
    assert meter.told == [(6, 2), CASES[1], CASES[3], CASES[4], CASES[5]]
    assert {run.case for run in second.done} == set(CASES[::2])


def test_a_file_may_hold_more_than_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    collect(InProcess(), SCRIPTED, CASES, path, CountingMeter())
    fewer = collect(InProcess(), SCRIPTED, CASES[:1], path, CountingMeter())
    assert [run.case for run in fewer.done] == CASES[:1]


def test_a_resumed_run_equals_a_fresh_one(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    case = [Case("fifo", 0, 1.2)]
    (fresh,) = collect(InProcess(), sweep(), case, path, CountingMeter()).done
    (read,) = collect(InProcess(), sweep(), case, path, CountingMeter()).done
    assert (read.document, read.curves) == (fresh.document, fresh.curves)
