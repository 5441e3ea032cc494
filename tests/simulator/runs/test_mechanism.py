"""How jobs wait in Slurm: the engine's numbers, and every production stack under each mechanism."""

import random
from dataclasses import replace

import pytest

import roost_sim.runs.simulation as simulation
from roost_engine.domain.actions import Action
from roost_engine.domain.events import Event, JobEnded, Tick
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobState, shares_of
from roost_engine.plugins.stacks import STACKS
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.presets import preset
from roost_sim.figures.metrics import Span
from roost_sim.runs.mechanism import Mechanism
from roost_sim.runs.simulation import Run, simulate
from roost_sim.traces.trace import Trace, make_trace
from roost_sim.worlds.world_spec import Speed, WorldSpec

PINNED = (JobState.WAITING, JobState.CLEARING)


@pytest.mark.parametrize("mechanism", Mechanism)
def test_the_engines_numbers_tell_the_mechanism(mechanism: Mechanism) -> None:
    config = mechanism.engine_config(EngineConfig(patience_s=7.0))
    assert Mechanism.of(config) is mechanism
    assert config.patience_s == 7.0
    assert mechanism.engine_config(EngineConfig(), 3.0).standing_pin_after_s == 3.0


def test_a_final_pin_comes_after_a_wait_by_default() -> None:
    waits_s = [
        mechanism.engine_config(EngineConfig()).standing_pin_after_s for mechanism in Mechanism
    ]
    assert waits_s == [0.0, 10.0, 0.0]


class CheckedEngine(Engine):
    """An engine that checks itself and its pins after every event."""

    def step(self, event: Event) -> tuple[Action, ...]:
        actions = super().step(event)
        self.check_invariants()
        pinned = [
            (record.state, record.standing)
            for _, record in self.records()
            if record.standing is not None and record.state in PINNED
        ]
        assert len(pinned) <= 1, "one job is pinned at a time"
        if isinstance(event, (JobEnded, Tick)):
            for state, pin in pinned:
                is_free = self.cluster.has_free(shares_of(pin.placement))
                assert state is JobState.CLEARING or not is_free, "waits for GPUs that are free"
        return actions


def drawn(rng: random.Random) -> Trace:
    """Jobs that crowd 64 GPUs, some as large as the cluster."""
    count, submit_s = rng.randint(5, 40), [0.0]
    for _ in range(count - 1):
        submit_s.append(submit_s[-1] + rng.choice((0, 0, 1, 5, 30, 100, 700)))
    return make_trace(
        "drawn",
        submit_s,
        [float(rng.choice((1, 10, 50, 60, 300, 700, 3000, 7200))) for _ in submit_s],
        [rng.choice((1, 1, 2, 3, 4, 8, 8, 16, 24, 32, 64)) for _ in submit_s],
    )


@pytest.mark.parametrize("mechanism", Mechanism)
@pytest.mark.parametrize("stack", STACKS)
def test_every_job_of_a_random_trace_runs_and_the_state_never_contradicts_itself(
    stack: str, mechanism: Mechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "Engine", CheckedEngine)
    for seed in range(3):
        rng = random.Random(seed)
        numbers = EngineConfig(
            patience_s=rng.choice((0.0, 60.0, 600.0)),
            window_count=rng.choice((2, 1000)),
        )
        run = Run(
            trace=drawn(rng),
            cluster=preset("small"),
            policy=find_policy(stack),
            world=WorldSpec(speed=rng.choice((Speed.TRACE, WorldSpec().speed))),
            seed=seed,
            start_delay_s=rng.choice((0.0, 1.0)),
            engine_config=mechanism.engine_config(numbers, rng.choice((0.0, 10.0, 600.0))),
        )
        report = simulate(run)
        assert report.metrics.completed == len(run.trace)
        assert report.mechanism is mechanism


ONE_AFTER_THE_OTHER = Run(
    trace=make_trace("by hand", [0.0, 10.0], [100.0, 50.0], [64, 64]),
    cluster=preset("small"),
    policy=find_policy("fifo"),
    world=WorldSpec(speed=Speed.TRACE),
    span=Span(warm_up_frac=0.0, cool_down_frac=0.0),
    start_delay_s=2.0,
)


def test_a_job_that_waits_in_slurm_starts_without_the_delay_of_a_decision() -> None:
    # Under leases it starts at 102 + 2; pinned at 10, at 102. Either way Slurm is asked once a job.
    lease = simulate(ONE_AFTER_THE_OTHER)
    numbers = Mechanism.STANDING.engine_config(ONE_AFTER_THE_OTHER.engine_config)
    standing = simulate(replace(ONE_AFTER_THE_OTHER, engine_config=numbers))
    assert [job.started_s for job in lease.outcome.jobs] == [2.0, 104.0]
    assert [job.started_s for job in standing.outcome.jobs] == [2.0, 102.0]
    assert (lease.outcome.update_count, lease.outcome.standing_count) == (2, 0)
    assert (standing.outcome.update_count, standing.outcome.standing_count) == (2, 1)
