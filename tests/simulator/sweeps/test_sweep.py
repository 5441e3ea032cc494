from dataclasses import replace

import numpy as np
import pytest
from tests.simulator.sweeps.cases import jobs, sweep

from roost_sim.catalogue.compositions import find_policy
from roost_sim.errors import TraceError
from roost_sim.runs.simulation import simulate
from roost_sim.sweeps.sweep import (
    Case,
    Done,
    Failed,
    InProcess,
    cases_of,
    drawn_sample,
    drawn_window,
)


def test_every_combination_is_a_case_and_seeds_come_whole() -> None:
    cases = cases_of(["fifo", "sjf"], [3, 4], [0.5, None])
    assert len(set(cases)) == 8
    assert [case.seed for case in cases] == [3] * 4 + [4] * 4
    assert [str(case) for case in cases[1:3]] == ["sjf, seed 3, load 0.5", "fifo, seed 3"]


def test_a_case_comes_to_what_a_run_comes_to() -> None:
    (finished,) = InProcess().perform(sweep(), [Case("sjf", 0, None)])
    assert isinstance(finished, Done)
    report = simulate(replace(sweep().template, policy=find_policy("sjf")))
    assert finished.document["avg_jct_s"] == report.metrics.avg_jct_s
    assert finished.document["load"] is None
    assert finished.curves.tier_counts == report.metrics.tier_counts


def test_a_load_stretches_the_arrivals_of_a_case() -> None:
    whole = sweep()
    assert whole.jobs_of(Case("fifo", 0, 0.5)).load(64) == pytest.approx(0.5)
    assert whole.jobs_of(Case("fifo", 0, None)) is whole.template.trace


def test_a_window_is_consecutive_jobs_and_the_same_for_every_policy() -> None:
    windowed = sweep(window_jobs=10)
    starts = set()
    for seed in range(8):
        fifo, sjf = (windowed.jobs_of(Case(name, seed, None)) for name in ("fifo", "sjf"))
        assert len(fifo) == 10
        assert fifo.submit_s[0] == 0
        assert set(np.diff(fifo.submit_s)) == {7.0}
        assert fifo.duration_s.tolist() == sjf.duration_s.tolist()
        starts.add(tuple(fifo.duration_s))
    assert len(starts) > 4


def test_a_window_may_be_the_whole_trace_but_no_more() -> None:
    trace = jobs(12)
    assert drawn_window(trace, 12, seed=5).duration_s.tolist() == trace.duration_s.tolist()
    with pytest.raises(TraceError, match="12 jobs are too few for a window of 13"):
        drawn_window(trace, 13, seed=5)


def test_a_sample_keeps_the_order_and_the_times_and_hangs_on_the_seed() -> None:
    trace = jobs(40)
    samples = [drawn_sample(trace, 10, seed) for seed in (0, 0, 1)]
    times = [tuple(sample.submit_s) for sample in samples]
    assert times[0] == times[1] != times[2]
    assert list(times[0]) == sorted(set(times[0]) & set(trace.submit_s))
    with pytest.raises(TraceError, match="40 jobs are too few to draw 41"):
        drawn_sample(trace, 41, seed=0)


def test_the_end_of_a_trace_can_be_drawn() -> None:
    trace = jobs(3)
    firsts = {drawn_window(trace, 2, seed).gpu_count[0].item() for seed in range(20)}
    assert firsts == {1, 2}


def test_a_case_that_fails_says_why_and_stops_no_other() -> None:
    cases = [Case("no-such", 0, None), Case("fifo", 0, -1.0), Case("fifo", 0, None)]
    named, broken, good = InProcess().perform(sweep(), cases)
    assert isinstance(named, Failed)
    assert "no policy 'no-such'" in named.reason
    assert broken == Failed(cases[1], "ValueError: want a load above 0, got -1.0")
    assert isinstance(good, Done)
