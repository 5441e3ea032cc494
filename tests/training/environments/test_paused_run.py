"""A paused run is the same simulation, decided job by job."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.training.environments.small_episodes import GPUS_PER_NODE, cluster, episodes

from roost_engine.queue.selector_columns import JOB_COLUMNS
from roost_sim.catalogue.compositions import find_policy
from roost_sim.figures.outcome import Outcome
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.trace import Trace, make_trace
from roost_sim.worlds.world_spec import Speed, WorldSpec
from roost_train.environments.paused_run import OrderChoices, PausedRun

AT_TRACED_SPEED = WorldSpec(speed=Speed.TRACE)


def run_of(jobs: Trace, policy: str = "fifo+consolidation+open") -> Run:
    return Run(
        trace=jobs, cluster=cluster(1), policy=find_policy(policy), world=AT_TRACED_SPEED, seed=0
    )


def played(paused: PausedRun, choose: Callable[[OrderChoices], int]) -> tuple[float, Outcome]:
    """Decide until the end; return the sum of the rewards and the outcome."""
    total = 0.0
    while (choices := paused.next_choices()) is not None:
        total += choices.reward
        paused.choose(choose(choices))
        paused.driver.engine.check_invariants()
    return total + paused.take_reward(), paused.finish()


def completion_s(outcome: Outcome) -> float:
    return sum(job.ended_s - job.submit_s for job in outcome.jobs if job.ended_s is not None)


def three_jobs() -> Trace:
    """One job holds the node; a wide and a narrow one wait for it."""
    return make_trace("made up", [0.0, 1.0, 2.0], [100.0, 50.0, 10.0], [4, 4, 1])


def test_the_agent_decides_which_job_is_next() -> None:
    starts = []
    for wanted in ("2", "3"):
        paused = PausedRun(run_of(three_jobs()))
        _, outcome = played(
            paused,
            lambda choices, wanted=wanted: (  # type: ignore[misc]
                choices.seen.job_ids.index(wanted) if wanted in choices.seen.job_ids else 0
            ),
        )
        starts.append([job.started_s for job in outcome.jobs])
    assert starts == [[0.0, 100.0, 150.0], [0.0, 110.0, 100.0]]


def test_the_rewards_sum_to_less_the_total_completion_time() -> None:
    for seed in range(3):
        paused = episodes().begin_order(seed)
        rng = np.random.default_rng(seed)
        total, outcome = played(
            paused,
            lambda choices, rng=rng: int(rng.choice(np.flatnonzero(choices.mask))),  # type: ignore[misc]
        )
        assert all(job.ended_s is not None for job in outcome.jobs)
        assert total == pytest.approx(-completion_s(outcome))


@pytest.mark.parametrize("order", ["sjf", "learned"])
def test_the_teachers_choices_give_the_teachers_run(order: str) -> None:
    jobs = episodes(teacher=f"{order}+consolidation+open", job_count=120).run(1)
    paused = PausedRun(jobs)
    _, outcome = played(paused, paused.teachers_choice)
    usual = simulate(jobs).outcome
    assert [job.started_s for job in outcome.jobs] == [job.started_s for job in usual.jobs]


def unpredictable() -> Trace:
    """Jobs whose run times nothing tells: trust in predictions falls while many of them wait."""
    rng, count = np.random.default_rng(1), 400
    run_s, gpus = rng.lognormal(6.0, 1.5, count), rng.choice([1, 2, 4], count)
    gap_s = float((run_s * gpus).mean()) / (1.2 * GPUS_PER_NODE)
    submit_s = rng.exponential(gap_s, count).cumsum()
    return make_trace("made up", submit_s.tolist(), run_s.tolist(), gpus.tolist())


def test_the_teachers_keys_change_with_the_trust_in_predictions() -> None:
    starts = list[list[float | None]]()
    for order in ("learned", "learned-trusting"):
        run = run_of(unpredictable(), f"{order}+consolidation+open")
        paused = PausedRun(run)
        _, outcome = played(paused, paused.teachers_choice)
        starts.append([job.started_s for job in outcome.jobs])
        assert starts[-1] == [job.started_s for job in simulate(run).outcome.jobs]
    assert starts[0] != starts[1]  # trust has changed


@pytest.mark.parametrize("teacher", ["learned", "fifo"])
def test_the_due_column_is_the_learned_orders_also_where_trust_changes(teacher: str) -> None:
    def earliest_due(choices: OrderChoices) -> int:
        due = choices.seen.jobs[:, JOB_COLUMNS.index("ln_trusted_due")]
        return int(np.where(choices.mask[:-1], due, np.inf).argmin())

    _, outcome = played(
        PausedRun(run_of(unpredictable(), f"{teacher}+consolidation+open")), earliest_due
    )
    usual = simulate(run_of(unpredictable(), "learned+consolidation+open")).outcome
    assert [job.started_s for job in outcome.jobs] == [job.started_s for job in usual.jobs]


def test_with_reservations_the_teachers_run_is_as_good() -> None:
    ratios = []
    for seed in range(4):
        jobs = episodes(teacher="sjf+consolidation+patient", job_count=80).run(seed)
        paused = PausedRun(jobs)
        _, outcome = played(paused, paused.teachers_choice)
        ratios.append(completion_s(outcome) / completion_s(simulate(jobs).outcome))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)


def test_none_lets_a_job_wait_until_something_happens() -> None:
    paused = PausedRun(run_of(three_jobs()), may_wait=True)
    first = paused.next_choices()
    assert first is not None
    assert first.mask.tolist() == [True, True]
    paused.choose(first.none)
    second = paused.next_choices()
    assert second is not None
    assert (second.at_s, second.seen.job_ids) == (1.0, ("1", "2"))


def test_none_is_not_offered_where_nothing_else_would_happen() -> None:
    jobs = make_trace("made up", [0.0, 1.0, 1.0], [5.0] * 3, [4, 1, 1])
    paused = PausedRun(run_of(jobs), may_wait=True)
    assert paused.next_choices() is not None
    paused.choose(0)
    choices = paused.next_choices()
    assert choices is not None
    assert choices.mask.tolist() == [True, True, False]


def test_a_job_that_does_not_fit_is_not_offered_before_its_patience_is_spent() -> None:
    jobs = make_trace(
        "made up", [0.0, 0.0, 1.0, 2.0, 2.0], [100.0, 5.0] + [50.0] * 3, [3, 1, 4, 1, 1]
    )
    choices = [PausedRun(run_of(jobs, "fifo+consolidation+patient"))]
    paused = choices[0]
    masks = {}
    while (found := paused.next_choices()) is not None:
        masks[found.at_s] = dict(zip(found.seen.job_ids, found.mask.tolist(), strict=False))
        paused.choose(int(np.argmax(found.mask)))
    assert masks[5.0] == {"3": False, "4": True, "5": True}


def test_an_impatient_job_may_be_chosen_and_later_jobs_must_not_delay_it() -> None:
    # Job 1 leaves one GPU free until 5000 s. Job 2 wants the node and has waited long when 3 comes.
    jobs = make_trace("made up", [0.0, 1.0, 2_000.0], [5_000.0, 50.0, 9_000.0], [3, 4, 1])
    paused = PausedRun(run_of(jobs, "fifo+consolidation+patient"))
    seen = []
    while (found := paused.next_choices()) is not None:
        seen.append((found.at_s, found.seen.job_ids, found.mask.tolist()))
        wanted = "2" if "2" in found.seen.job_ids and len(found.seen.job_ids) == 2 else None
        action = found.seen.job_ids.index(wanted) if wanted else int(np.argmax(found.mask))
        paused.choose(action)
    assert (2_000.0, ("2", "3"), [True, True, False]) in seen
    starts = [job.started_s for job in paused.finish().jobs]
    assert starts == [0.0, 5_000.0, 5_050.0]


def test_decisions_before_the_run_is_warm_are_the_teachers() -> None:
    paused = episodes(warm_count=30).begin_order(0)
    choices = paused.next_choices()
    assert choices is not None
    assert paused.driver.arrived_count >= 30
    assert choices.reward == 0.0


def test_a_masked_action_is_refused() -> None:
    paused = PausedRun(run_of(three_jobs()))
    choices = paused.next_choices()
    assert choices is not None
    with pytest.raises(ValueError, match="action 2 may not be chosen now"):
        paused.choose(choices.none)
    paused.choose(0)
    with pytest.raises(ValueError, match="may not be chosen"):
        paused.choose(0)


def test_a_large_queue_shows_the_jobs_that_fit_first() -> None:
    jobs = make_trace(
        "made up", [0.0, 0.0] + [1.0] * 10, [100.0, 5.0] + [100.0] * 10, [3, 1] + [4] * 8 + [1, 1]
    )
    paused = PausedRun(run_of(jobs), window_count=3)
    found = paused.next_choices()
    assert found is not None
    assert found.seen.job_ids == ("3", "11", "12")
    assert found.mask.tolist() == [False, True, True, False]


def test_where_one_job_only_may_be_chosen_nothing_is_asked() -> None:
    jobs = make_trace("made up", [0.0, 10.0, 20.0], [5.0] * 3, [1, 2, 3])
    paused = PausedRun(run_of(jobs))
    assert paused.next_choices() is None
    assert paused.forced_count == 3
    assert [job.started_s for job in paused.finish().jobs] == [0.0, 10.0, 20.0]
    assert paused.take_reward() == -15.0


def test_to_remember_that_nothing_fits_changes_no_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    def decisions() -> list[tuple[float, bytes, bytes]]:
        paused, found = episodes(loads=(1.3,)).begin_order(1), []
        while (choices := paused.next_choices()) is not None:
            found.append((choices.at_s, choices.seen.jobs.tobytes(), choices.mask.tobytes()))
            paused.choose(int(choices.mask.argmax()))
        return found

    remembered = decisions()
    assert len(remembered) > 5
    monkeypatch.setattr(PausedRun, "_is_known_unfit", lambda *_: False)
    assert decisions() == remembered
