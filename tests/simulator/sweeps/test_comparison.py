from collections.abc import Mapping

import pytest
from tests.simulator.sweeps.cases import done, leaving_out

from roost_sim.sweeps.comparison import TIMES_BOUND, Comparison
from roost_sim.sweeps.intervals import Interval, SeedMean
from roost_sim.sweeps.sweep import Done

RUNS = [
    done("sjf", 1, avg_jct_s=30.0, bound_avg_jct_s=20.0, comm_share=None),
    done("fifo", 1, avg_jct_s=60.0, bound_avg_jct_s=20.0, comm_share=None),
    done("sjf", 0, avg_jct_s=10.0, bound_avg_jct_s=10.0, comm_share=None),
    done("fifo", 0, avg_jct_s=100.0, bound_avg_jct_s=10.0, comm_share=None),
    done("sjf", 2, avg_jct_s=50.0, bound_avg_jct_s=10.0, comm_share=None),
]


def comparison() -> Comparison:
    return Comparison.of(RUNS, ["fifo", "sjf"], [None], "fifo")


def estimate(found: Mapping[str, SeedMean | None], name: str) -> SeedMean:
    chosen = found[name]
    assert chosen is not None
    return chosen


def test_runs_come_by_policy_as_asked_for_then_by_seed() -> None:
    order = [(run.case.policy, run.case.seed) for run in comparison().runs]
    assert order == [("fifo", 0), ("fifo", 1), ("sjf", 0), ("sjf", 1), ("sjf", 2)]


def test_means_are_over_all_seeds_and_ratios_over_pairs() -> None:
    fifo, sjf = comparison().summaries
    assert (fifo.seeds, sjf.seeds) == ((0, 1), (0, 1, 2))
    assert estimate(sjf.metrics, "avg_jct_s").mean == 30
    # Seed 2 has no partner: (10 / 100 + 30 / 60) / 2.
    ratio = estimate(sjf.ratios, "avg_jct_s")
    assert ratio.mean == pytest.approx(0.3)
    assert (ratio.least, ratio.most, ratio.ci95) == (0.1, 0.5, Interval(0.1, 0.5))
    assert estimate(fifo.ratios, "avg_jct_s").ci95 == Interval(1, 1)


def test_times_the_bound_is_taken_seed_by_seed() -> None:
    # (10 / 10 + 30 / 20 + 50 / 10) / 3, and not 90 / 40.
    assert estimate(comparison().summaries[1].metrics, TIMES_BOUND).mean == pytest.approx(2.5)


def test_a_figure_that_no_seed_has_is_null() -> None:
    documents = comparison().documents()
    metrics = documents[-1]["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["comm_share"] is None


def test_a_figure_that_a_run_of_an_older_file_lacks_is_null() -> None:
    # A mean over the other seeds would be shown as one over both.
    runs = [done("fifo", 0, avg_jct_s=1.0), done("fifo", 1, avg_jct_s=3.0, longest_queue_s=9.0)]
    (only,) = Comparison.of(runs, ["fifo"], [None], "fifo").summaries
    assert estimate(only.metrics, "avg_jct_s").mean == 2
    assert only.metrics["longest_queue_s"] is None


def test_a_missing_baseline_leaves_ratios_out() -> None:
    (only,) = Comparison.of(RUNS[:1], ["fifo", "sjf"], [None], "fifo").summaries
    assert only.policy == "sjf"
    assert only.ratios["avg_jct_s"] is None


def left_out_runs(*digests: str | None, count: int = 3) -> list[Done]:
    """Two seeds of fifo, and of sjf, which leaves out these jobs."""
    fifo = [done("fifo", seed, avg_jct_s=10.0) for seed in (0, 1)]
    sjf = [
        leaving_out(done("sjf", seed, avg_jct_s=5.0), count, digest)
        for seed, digest in enumerate(digests)
    ]
    return [*fifo, *sjf]


def test_policies_that_completed_other_jobs_have_no_ratio_and_say_why() -> None:
    runs = left_out_runs("one", "others")
    fifo, sjf = Comparison.of(runs, ["fifo", "sjf"], [None], "fifo").summaries
    assert fifo.not_comparable is None
    assert estimate(fifo.ratios, "avg_jct_s").mean == 1
    assert sjf.not_comparable == "other jobs than under fifo: 3 left out, there 1 (in seed 1)"
    assert estimate(sjf.metrics, "avg_jct_s").mean == 5
    assert set(sjf.ratios.values()) == {None}
    documents = Comparison.of(runs, ["fifo", "sjf"], [None], "fifo").documents()
    assert documents[-1]["not_comparable"] == sjf.not_comparable
    metrics = documents[-1]["metrics"]
    assert isinstance(metrics, dict)
    assert metrics["avg_jct_s"]["ratio"] is None


def test_as_many_jobs_left_out_are_not_the_same_jobs() -> None:
    runs = left_out_runs("others", "others", count=1)
    _, sjf = Comparison.of(runs, ["fifo", "sjf"], [None], "fifo").summaries
    assert sjf.not_comparable is not None
    assert sjf.not_comparable.endswith("1 left out, there 1 (in seed 0 and 1 more)")


@pytest.mark.parametrize(("count", "is_same"), [(1, True), (2, False)])
def test_runs_of_an_older_file_are_told_apart_by_the_counts(count: int, is_same: bool) -> None:
    runs = left_out_runs(None, None, count=count)
    _, sjf = Comparison.of(runs, ["fifo", "sjf"], [None], "fifo").summaries
    assert (sjf.not_comparable is None) is is_same


def test_runs_of_other_policies_or_loads_are_left_out() -> None:
    assert len(Comparison.of(RUNS, ["sjf"], [None], "sjf").runs) == 3
    assert Comparison.of(RUNS, ["sjf"], [0.9], "sjf").runs == ()


def test_the_json_list_is_runs_then_summaries() -> None:
    documents = comparison().documents()
    assert [document.get("summary") for document in documents] == [None] * 5 + [True] * 2
    assert list(documents[-1]) == [
        "policy",
        "load",
        "summary",
        "regime",
        "mechanism",
        "seeds",
        "baseline",
        "not_comparable",
        "metrics",
    ]
    metrics = documents[-1]["metrics"]
    assert isinstance(metrics, dict)
    # Student's t of two degrees of freedom, deviation 20: 30 ± 4.303 * 20 / sqrt(3).
    found = metrics["avg_jct_s"]
    assert found["mean"] == 30
    assert found["ci95"] == pytest.approx([30 - 49.687, 30 + 49.687], abs=1e-3)
    assert (found["min"], found["max"]) == (10, 50)
    assert list(found["ratio"]) == ["mean", "ci95", "min", "max"]
