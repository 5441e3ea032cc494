"""Traces made to starve a job under the learned order: it starts by the bound of docs/order.md.

    start(j) <= from(j) + window(j) + patience + (n + 1) · L

n: jobs that wait at from(j) + window(j) and came until then; L: the longest time limit of others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

import pytest
from tests.simulator.simulated import cluster, result, simulate

from roost_engine.domain.model import JobSpec
from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.queue.learned_order import Fairness, LearnedOrder, LearnedOrderConfig
from roost_engine.testing.builders import job, shape
from roost_engine.testing.fakes import ToldRunTimes, ends_about
from roost_sim.figures.outcome import Outcome
from roost_sim.traces.arrival import Arrival

WINDOW_S, PATIENCE_S = 20_000.0, 600.0
NODES, GPUS = 4, 8
VICTIM = "victim"
# The runs of a stream are alike: an order that has to earn trust would serve them as they came.
BOUNDED = LearnedOrderConfig(window_s=WINDOW_S, window_backlogs=0.0, earned_trust=False)
UNBOUNDED = LearnedOrderConfig(window_s=inf, ageing=1e6, earned_trust=False)


def comes(job_id: str, submit_s: float, work_s: float, gpus: int, nodes: int = 1) -> Arrival:
    """A job whose user asked for half as much again as it needs."""
    spec = job(
        job_id, shape(gpus, nodes), submit_s=submit_s, time_limit_s=1.5 * work_s, user_id=nodes
    )
    return Arrival(spec=spec, work_s=work_s, gpu_count=spec.gpu_count)


def short_jobs_against_a_gang() -> Sequence[Arrival]:
    """A stream that takes a fifth more than the cluster has, and a gang of all nodes."""
    gang = comes(VICTIM, 1_000.0, 5_000.0, GPUS, NODES)
    stream = [comes(f"s{n}", 250.0 * n, 1_200.0, GPUS) for n in range(320)]
    return [*stream, gang]


def one_gpu_jobs_against_a_gang() -> Sequence[Arrival]:
    """The same of jobs of one GPU: some GPUs come free all the time, but never a node."""
    gang = comes(VICTIM, 1_000.0, 5_000.0, GPUS, NODES)
    return [*(comes(f"s{n}", 36.0 * n, 1_200.0, 1) for n in range(2_600)), gang]


def a_job_in_many_pieces() -> Sequence[Arrival]:
    """One user has a job of a day in pieces of five minutes; another has one of three hours."""
    pieces = [comes(f"s{n}", 70.0 * n, 300.0, GPUS) for n in range(1_100)]
    return [*pieces, comes(VICTIM, 2_000.0, 10_000.0, GPUS)]


TRACES = [
    short_jobs_against_a_gang,
    one_gpu_jobs_against_a_gang,
    a_job_in_many_pieces,
]


@dataclass(frozen=True)
class Guess:
    """What is expected of jobs: their work, times one factor for the victim, one for the others."""

    victim: float = 1.0
    others: float = 1.0

    def __call__(self, spec: JobSpec) -> RunTimes:
        assert spec.time_limit_s is not None
        work_s = spec.time_limit_s / 1.5
        return ends_about(work_s * (self.victim if spec.job_id == VICTIM else self.others))


GUESSES = [Guess(), Guess(1e3, 1.0), Guess(1.0, 1e-3), Guess(1e-3, 1e3), Guess(1e3, 1e-3)]


def run(
    arrivals: Sequence[Arrival], config: LearnedOrderConfig, guess: Guess | None = None
) -> Outcome:
    predictors = ToldRunTimes(guess or Guess())
    policies = Policies(order=LearnedOrder(config, predictors), predictors=predictors)
    ordered = sorted(arrivals, key=lambda one: one.spec.submit_s)
    engine = EngineConfig(patience_s=PATIENCE_S)
    return simulate(cluster(NODES, GPUS), *ordered, policies=policies, config=engine)


def latest_start_s(outcome: Outcome, arrivals: Sequence[Arrival]) -> float:
    """The bound of the victim."""
    due_s = result(outcome, VICTIM).submit_s + WINDOW_S
    before = [
        one
        for one in outcome.jobs
        if one.job_id != VICTIM
        and one.submit_s <= due_s
        and (one.started_s is None or one.started_s >= due_s)
    ]
    limits_s = (one.spec.time_limit_s for one in arrivals if one.spec.job_id != VICTIM)
    longest_s = max(limit_s or inf for limit_s in limits_s)
    return due_s + PATIENCE_S + (len(before) + 1) * longest_s


@pytest.mark.parametrize("make", TRACES)
@pytest.mark.parametrize("fairness", Fairness)
def test_the_victim_starts_by_its_bound_in_every_mode(
    make: Callable[[], Sequence[Arrival]], fairness: Fairness
) -> None:
    arrivals = make()
    outcome = run(arrivals, replace(BOUNDED, fairness=fairness))
    started_s = result(outcome, VICTIM).started_s
    assert started_s is not None
    assert started_s <= latest_start_s(outcome, arrivals)


@pytest.mark.parametrize("make", TRACES)
@pytest.mark.parametrize("guess", GUESSES, ids=str)
def test_the_victim_starts_by_its_bound_whatever_is_expected(
    make: Callable[[], Sequence[Arrival]], guess: Guess
) -> None:
    arrivals = make()
    outcome = run(arrivals, BOUNDED, guess)
    started_s = result(outcome, VICTIM).started_s
    assert started_s is not None
    assert started_s <= latest_start_s(outcome, arrivals)


@pytest.mark.parametrize("make", TRACES)
def test_without_a_window_the_same_traces_break_that_bound(
    make: Callable[[], Sequence[Arrival]],
) -> None:
    arrivals = make()
    outcome = run(arrivals, UNBOUNDED)
    started_s = result(outcome, VICTIM).started_s
    assert started_s is not None
    assert started_s > latest_start_s(outcome, arrivals)


@pytest.mark.parametrize(
    ("fairness", "is_held_back"),
    [(Fairness.STRICT, True), (Fairness.BAND, False), (Fairness.FREE, False)],
)
def test_jobs_of_a_higher_priority_go_first_as_far_as_the_mode_says(
    fairness: Fairness, is_held_back: bool
) -> None:
    # The stream has more priority, within the same band: in strict mode that is Slurm's decision,
    # and no window changes it.
    arrivals = [
        one if one.spec.job_id == VICTIM else replace(one, spec=replace(one.spec, priority=500))
        for one in short_jobs_against_a_gang()
    ]
    outcome = run(arrivals, replace(BOUNDED, fairness=fairness, band=1_000))
    started_s = result(outcome, VICTIM).started_s
    assert started_s is not None
    last_s = max(one.spec.submit_s for one in arrivals)
    assert (started_s > last_s) is is_held_back


# -- shares of users -------------------------------------------------------------------------------

GREEDY, MODEST = 7, (8, 9)  # users
_UNTIL_S = 60_000.0


def a_stream_of_one_user_against_others() -> Sequence[Arrival]:
    """One user fills the cluster with short jobs; two others want a third of it each.

    Together they want five thirds of what the cluster has.
    """

    def of(user_id: int, number: int, submit_s: float, work_s: float) -> Arrival:
        one = comes(f"{user_id}-{number}", submit_s, work_s, GPUS)
        return replace(one, spec=replace(one.spec, user_id=user_id))

    stream = [of(GREEDY, n, 75.0 * n, 300.0) for n in range(int(_UNTIL_S / 75.0))]
    others = [
        of(user_id, n, 750.0 * n, 1_000.0)
        for user_id in MODEST
        for n in range(int(_UNTIL_S / 750.0))
    ]
    return [*stream, *others]


def had_frac(outcome: Outcome, user_id: int) -> float:
    """Return the share of the GPU-seconds until the last job comes that a user has had."""
    had_s = {
        one.job_id: max(min(one.ended_s or _UNTIL_S, _UNTIL_S) - (one.started_s or _UNTIL_S), 0.0)
        for one in outcome.jobs
    }
    own_s = sum(ran_s for job_id, ran_s in had_s.items() if job_id.startswith(f"{user_id}-"))
    return own_s / sum(had_s.values())


@pytest.mark.parametrize("slack", [1.0, 1.5])
def test_a_stream_of_short_jobs_gets_no_more_than_the_slack_allows(slack: float) -> None:
    config = replace(BOUNDED, window_s=10.0 * _UNTIL_S, share_slack=slack)
    outcome = run(a_stream_of_one_user_against_others(), config)
    assert had_frac(outcome, GREEDY) <= slack / 3 + 0.05
    for user_id in MODEST:
        assert had_frac(outcome, user_id) >= (1.0 - slack / 3) / 2 - 0.05


def test_without_a_slack_the_same_stream_takes_two_thirds() -> None:
    config = replace(BOUNDED, window_s=10.0 * _UNTIL_S)
    assert had_frac(run(a_stream_of_one_user_against_others(), config), GREEDY) > 0.65
