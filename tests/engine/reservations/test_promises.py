"""promises: a reserved job is told when it starts, and why that changes."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import Wait
from roost_engine.domain.events import NodeLost
from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.prediction.run_time.foreseen_ends import EndsConfig
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.testing.builders import EngineHarness, job, node, placed, waits
from roost_engine.testing.fakes import ToldRunTimes, ends_about

BRAVE = EndsConfig(passing_frac=0.9, most_delay_s=2_000.0)


def told(spec: JobSpec) -> RunTimes:
    """Expect of a job the time that its name says, in seconds."""
    return ends_about(float(spec.name or 100.0))


def policies(ends: EndsConfig | None = None) -> Policies:
    return Policies(predictors=ToldRunTimes(told), ends=ends or EndsConfig())


def expected(job_id: str, run_s: float, gpus: int, limit_s: float | None) -> JobSpec:
    number = float(job_id)
    return replace(job(job_id, gpus=gpus, time_limit_s=limit_s, submit_s=number), name=f"{run_s}")


def with_gang(
    make_harness: HarnessFactory, ends: EndsConfig | None = None, **config: bool
) -> EngineHarness:
    """Run a job on half of the only node until 1,000 s at most; a job of the whole node waits."""
    engine = EngineConfig(patience_s=0.0, **config)  # type: ignore[arg-type]
    harness = make_harness([node("a")], config=engine, policies=policies(ends))
    harness.run(expected("1", 500.0, 4, 1_000.0))
    harness.queue(expected("2", 500.0, 8, 1_000.0))
    return harness


def until_s(harness: EngineHarness, job_id: str) -> float | None:
    return harness.engine.record(JobId(job_id)).until_s


def test_a_job_with_reserved_nodes_is_promised_a_start_by_the_time_limits(
    make_harness: HarnessFactory,
) -> None:
    harness = with_gang(make_harness)
    assert harness.reason("2") == "waits for 8 GPUs on one node; nodes are reserved for it"
    assert until_s(harness, "2") == 1_000.0


def test_a_promise_is_told_once(make_harness: HarnessFactory) -> None:
    harness = with_gang(make_harness)
    count = len([one for one in harness.actions if isinstance(one, Wait) and one.job_id == "2"])
    for number in range(3, 8):
        harness.now_s += 10.0
        assert "2" not in waits(harness.queue(expected(str(number), 500.0, 8, 1_000.0)))
    assert count <= 2  # for capacity, and with the promise


def test_without_predictions_nothing_is_promised(make_harness: HarnessFactory) -> None:
    config = EngineConfig(patience_s=0.0)
    harness = make_harness([node("a")], config=config)
    harness.run(expected("1", 500.0, 4, 1_000.0))
    harness.queue(expected("2", 500.0, 8, 1_000.0))
    assert (harness.reason("2"), until_s(harness, "2")) == ("waits for 8 GPUs on one node", None)


def test_a_missing_limit_is_replaced_by_when_most_jobs_like_it_have_ended(
    make_harness: HarnessFactory,
) -> None:
    engine = EngineConfig(patience_s=0.0)
    harness = make_harness([node("a")], config=engine, policies=policies())
    harness.run(expected("1", 500.0, 4, None))
    harness.queue(expected("2", 500.0, 8, 1_000.0))
    promised_s = until_s(harness, "2")
    assert promised_s == pytest.approx(ends_about(500.0).quantile_s(0.9))
    # A job that ends by then may pass; one that does not, may not.
    harness.queue(expected("3", 100.0, 4, 100.0), expected("4", 100.0, 4, 10_000.0))
    assert harness.state("3").value == "placing"
    assert harness.state("4").value == "waiting"


def test_a_promise_that_rests_on_a_wrong_prediction_says_so_when_it_moves(
    make_harness: HarnessFactory,
) -> None:
    engine = EngineConfig(patience_s=0.0)
    harness = make_harness([node("a")], config=engine, policies=policies())
    harness.run(expected("1", 500.0, 4, None))
    harness.queue(expected("2", 500.0, 8, 1_000.0))
    promised_s = until_s(harness, "2")
    assert promised_s is not None
    harness.advance(promised_s + 10.0)  # nothing else happens: the engine has asked to look again
    moved_s = until_s(harness, "2")
    assert moved_s is not None
    assert moved_s > harness.now_s
    reason = harness.reason("2")
    assert f"its promised start was moved by {moved_s - promised_s:.0f} s because" in reason
    assert "job 1 ran longer than expected (predicted 80 %: " in reason


def test_by_default_only_jobs_whose_limits_end_in_time_pass(make_harness: HarnessFactory) -> None:
    harness = with_gang(make_harness)
    harness.queue(expected("3", 100.0, 4, 1_001.0))
    assert harness.engine.waiting() == ("2", "3")
    harness.queue(expected("4", 100.0, 4, 1_000.0))
    assert harness.engine.waiting() == ("2", "3")  # job 4 passes: it ends at 1,000 s
    assert harness.state("4").value == "placing"


@pytest.mark.parametrize(
    ("run_s", "limit_s", "passes"),
    [
        (100.0, 3_000.0, True),
        (100.0, 3_001.0, False),  # it might cost more than the site allows
        (3_000.0, 2_900.0, False),  # it is not expected to end in time
        (100.0, None, False),  # nothing bounds what it might cost
        (100.0, 1e9, False),
    ],
)
def test_a_job_that_is_expected_to_end_in_time_passes_if_the_loss_is_bounded(
    make_harness: HarnessFactory, run_s: float, limit_s: float | None, passes: bool
) -> None:
    harness = with_gang(make_harness, BRAVE)
    assert ("3" in placed(harness.queue(expected("3", run_s, 4, limit_s)))) is passes


def test_the_promise_stands_until_the_job_that_passed_outlives_its_prediction(
    make_harness: HarnessFactory,
) -> None:
    harness = with_gang(make_harness, BRAVE)
    harness.run(expected("3", 100.0, 4, 3_000.0))
    harness.end("1")
    assert until_s(harness, "2") == 1_000.0
    harness.advance(999.0)
    assert until_s(harness, "2") == 3_000.0
    assert harness.reason("2").startswith(
        "waits for 8 GPUs on one node; its promised start was moved by 2000 s because"
        " job 3 ran longer than expected (predicted 80 %: "
    )
    assert "2" in placed(harness.end("3"))


def test_a_refused_start_forgets_by_what_it_was_let_pass(make_harness: HarnessFactory) -> None:
    harness = with_gang(make_harness, BRAVE)
    harness.queue(expected("3", 100.0, 4, 3_000.0))
    harness.refuse("3")
    assert harness.engine.record(JobId("3")).guess is None


def test_a_promise_is_taken_back_when_another_job_goes_first(make_harness: HarnessFactory) -> None:
    harness = with_gang(make_harness)
    harness.queue(replace(expected("3", 100.0, 7, 500.0), priority=1))
    assert harness.reason("2").endswith(
        "; job 3 is before it now, and the nodes are reserved for that"
    )
    assert until_s(harness, "2") is None
    assert until_s(harness, "3") == 1_000.0
    harness.end("1")
    harness.start("3")
    harness.queue(expected("4", 100.0, 8, 100.0))
    assert until_s(harness, "2") == harness.now_s + 500.0


def test_a_promise_moves_with_the_nodes(make_harness: HarnessFactory) -> None:
    config = EngineConfig(patience_s=0.0)
    nodes = [node("a"), node("b")]
    harness = make_harness(nodes, config=config, policies=policies())
    harness.run(expected("1", 500.0, 8, 1_000.0), expected("2", 500.0, 8, 5_000.0))
    harness.queue(expected("3", 500.0, 8, 1_000.0))
    assert until_s(harness, "3") == 1_000.0
    first = next(name for name in ("a", "b") if harness.placement("1").nodes == (name,))
    harness.feed(NodeLost(at_s=harness.now_s, name=NodeName(first)))
    assert until_s(harness, "3") == 5_000.0
    assert harness.reason("3").endswith(
        "its promised start was moved by 4000 s because nodes, or the jobs on them, have changed"
    )


def test_a_pinned_job_is_told_too(make_harness: HarnessFactory) -> None:
    config = EngineConfig(patience_s=0.0, standing_pins=True)
    harness = make_harness([node("a")], config=config, policies=policies())
    harness.run(expected("1", 500.0, 8, None))
    harness.queue(expected("2", 500.0, 8, 1_000.0))
    promised_s = until_s(harness, "2")
    assert promised_s is not None
    assert "promised" not in harness.reason("2")
    harness.advance(promised_s + 10.0)
    harness.queue(expected("3", 100.0, 7, 100.0))
    assert harness.engine.record(JobId("2")).standing is not None
    assert "its promised start was moved by " in harness.reason("2")
    assert "job 1 ran longer than expected" in harness.reason("2")


_others = st.lists(
    st.tuples(
        st.integers(1, 8),
        st.floats(1.0, 20_000.0),  # what it is expected to run
        st.floats(1.0, 20_000.0),  # its limit
        st.floats(0.0, 1.0),  # the share of its limit that it runs
        st.floats(0.0, 500.0),  # after the one before
    ),
    max_size=25,
)


@given(others=_others, most_delay_s=st.floats(0.0, 5_000.0), frac=st.floats(0.01, 0.99))
def test_predictions_move_a_start_by_no_more_than_the_site_allows(
    others: list[tuple[int, float, float, float, float]], most_delay_s: float, frac: float
) -> None:
    ends = EndsConfig(passing_frac=frac, most_delay_s=most_delay_s)
    harness = EngineHarness(
        [node("a")], config=EngineConfig(patience_s=0.0), policies=policies(ends)
    )
    harness.run(expected("1", 500.0, 4, 1_000.0))
    harness.queue(expected("2", 500.0, 8, 1_000.0))
    comes_s, leaves = 0.0, [(1_000.0, "1")]
    arrivals = []
    for number, (gpus, run_s, limit_s, used_frac, later_s) in enumerate(others, 3):
        comes_s += later_s
        arrivals.append((comes_s, expected(str(number), run_s, gpus, limit_s), used_frac * limit_s))
    while "2" not in placed(harness.actions):
        next_end_s = min(leaves)[0] if leaves else 1e9
        if arrivals and arrivals[0][0] <= next_end_s:
            at_s, spec, _ = arrivals[0]
            harness.advance(at_s)
            harness.queue(spec)
            lengths = {spec.job_id: arrivals.pop(0)[2]}
            for job_id in placed(harness.actions[-5:]):
                if job_id in lengths:
                    harness.start(job_id)
                    leaves.append((harness.now_s + lengths[JobId(job_id)], job_id))
        else:
            end_s, job_id = min(leaves)
            leaves.remove((end_s, job_id))
            harness.advance(end_s)
            harness.end(job_id)
    assert harness.now_s <= 1_000.0 + most_delay_s + 1e-6
    harness.engine.check_invariants()
