"""delay: which jobs wait, for which tier, how long, and what the gate learns from their waits."""

from dataclasses import dataclass
from math import inf, nan

import pytest
from tests.engine.offers import ACROSS, NODE, RACK, offer, outcome, record, run, two_racks

from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.gate.delay import DelayConfig, DelayGate, DelayState
from roost_engine.gate.timers import TimerConfig
from roost_engine.gate.waiting_curve import WaitSample
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import Allow, Defer
from roost_engine.prediction.predictors import Predictors, PredictorsState
from roost_engine.prediction.speed.job_class import TimerClass
from roost_engine.prediction.speed.tier_speeds import TierSpeeds
from roost_engine.testing.builders import job, shape, waiting
from roost_formats.journal.codec import decode, encode

HOUR_S = 3_600.0
EIGHT_HIGH = TimerClass.of(8, 0.5)


@dataclass(frozen=True)
class Speeds:
    """The same speeds for all jobs, on any number of GPUs."""

    found: TierSpeeds

    def speeds(self, model: str, gpu_count: int) -> TierSpeeds | None:
        return self.found

    def typical(self, gpu_count: int) -> TierSpeeds:
        return self.found


HALF_IN_RACK = Speeds(TierSpeeds(1.0, 0.5, 0.25))


def gate(table: Speeds | None = None, **options: float) -> DelayGate:
    return DelayGate(DelayConfig(**options), Predictors(table or HALF_IN_RACK))  # type: ignore[arg-type]


def knows(delay: DelayGate, *waits_s: float, target: int = NODE, at_s: float = 0.0) -> None:
    """Teach a gate answered waits of sensitive jobs of 8 GPUs."""
    for waited_s in waits_s:
        delay.timers.add(EIGHT_HIGH, target, WaitSample(at_s, waited_s, True))


def runs_for(delay: DelayGate, run_s: float, gpus: int = 8) -> None:
    """Teach a gate runs of this length, of jobs like those of the tests."""
    for number in range(300):
        delay.predictors.run_ended(run(record(str(number), gpus), 0.0, run_s))


def deferred_s(delay: DelayGate, job: JobRecord, tier: int, at_s: float, **options: int) -> float:
    """Return how much longer the gate defers a job; 0: it allows the offer."""
    verdict = delay.decide(offer(job, tier, at_s, **options))  # type: ignore[arg-type]
    return verdict.until_s - at_s if isinstance(verdict, Defer) else 0.0


class TestWhoWaits:
    def test_the_closest_tier_that_a_job_can_have_is_taken_at_once(self) -> None:
        delay = gate()
        for gpus, tier in ((8, NODE), (16, RACK), (32, ACROSS)):
            assert delay.decide(offer(record(gpus=gpus), tier, 0.0)) == Allow()

    def test_a_sensitive_job_waits_where_closer_gpus_come_soon(self) -> None:
        delay = gate()
        knows(delay, *[60.0] * 100)
        runs_for(delay, 280.0)
        verdict = delay.decide(offer(record(), RACK, 100.0))
        assert verdict == Defer(160.0, "waits for GPUs on one node: about 2.0 times as fast")

    def test_an_insensitive_job_never_waits(self) -> None:
        delay = gate(Speeds(TierSpeeds(1.0, 0.96, 0.5)))
        runs_for(delay, 100 * HOUR_S)
        assert delay.decide(offer(record(), RACK, 0.0)) == Allow()
        assert delay.decide(offer(record(), ACROSS, 0.0)) == Allow()

    def test_a_short_job_does_not_wait_long(self) -> None:
        delay = gate()
        knows(delay, *[600.0] * 100)
        runs_for(delay, 60.0)
        assert deferred_s(delay, record(), RACK, 0.0) == 0

    def test_no_job_waits_while_half_of_the_cluster_is_free(self) -> None:
        delay, cluster = gate(), two_racks()
        knows(delay, *[60.0] * 100)
        cluster.release(JobId("on-a0"))
        assert isinstance(delay.decide(offer(record(), RACK, 0.0, cluster)), Defer)
        cluster.release(JobId("on-b0"))
        assert delay.decide(offer(record(), RACK, 0.0, cluster)) == Allow()

    def test_a_job_larger_than_a_node_waits_for_its_rack(self) -> None:
        delay = gate()
        verdict = delay.decide(offer(record(gpus=16), ACROSS, 0.0))
        assert isinstance(verdict, Defer)
        assert verdict.reason.startswith("waits for GPUs in one rack")

    def test_other_waiting_jobs_raise_the_gain(self) -> None:
        delay = gate(Speeds(TierSpeeds(1.0, 0.8, 0.5)))
        for _ in range(100):
            delay.timers.add(TimerClass.of(8, 0.2), NODE, WaitSample(0.0, 600.0, True))
        runs_for(delay, 1_400.0)
        # One node saves 1400 / 0.8 - 1400 = 350 s, less than the wait. With 40 other waiting jobs
        # 8 of 32 GPUs count for each of them besides: 350 · (1 + 40 · 8 / 32) = 3850 s.
        assert deferred_s(delay, record(), RACK, 0.0) == 0
        assert deferred_s(delay, record(), RACK, 0.0, waiting_count=41) == 600


class TestHowLong:
    def test_a_wait_is_no_longer_than_the_cap(self) -> None:
        delay = gate(longest_s=600.0)
        runs_for(delay, 100 * HOUR_S)
        assert deferred_s(delay, record(), RACK, 0.0) == 600

    def test_a_wait_is_no_longer_than_a_fraction_of_the_time_limit(self) -> None:
        delay = gate(limit_frac=0.01)
        assert deferred_s(delay, record(limit_s=100 * HOUR_S), RACK, 0.0) == HOUR_S

    def test_caps_count_from_the_first_worse_offer(self) -> None:
        delay, long_queued = gate(longest_s=600.0), record(queued_s=-50 * HOUR_S)
        runs_for(delay, 100 * HOUR_S)
        assert deferred_s(delay, long_queued, RACK, 0.0) == 600
        assert deferred_s(delay, long_queued, RACK, 400.0) == 200
        assert deferred_s(delay, long_queued, RACK, 600.0) == 0

    def test_the_cap_counts_again_for_a_new_wait(self) -> None:
        delay = gate(longest_s=600.0)
        runs_for(delay, 100 * HOUR_S)
        assert deferred_s(delay, record(), RACK, 0.0) == 600
        delay.note(outcome(record(), RACK, 600.0))
        assert deferred_s(delay, record(queued_s=900.0), RACK, 1_000.0) == 600

    def test_a_wait_is_at_most_half_of_the_run_time_on_the_worse_place(self) -> None:
        delay = gate()
        knows(delay, *[10.0] * 50, *[1_100.0] * 50)
        runs_for(delay, 1_000.0)
        # It runs for twice as long in a rack, and half of that is the run time on a node.
        longest_s = delay.predictors.run_times(record(), 0.0).rest_s()
        crowded = deferred_s(delay, record(), RACK, 0.0, waiting_count=1_000)
        assert 10 <= crowded <= 1.05 * longest_s

    def test_a_job_that_would_lose_days_waits_longer_than_its_timer(self) -> None:
        delay = gate()
        knows(delay, *[600.0] * 100)
        runs_for(delay, 100 * HOUR_S)
        rest_s = delay.predictors.run_times(record(), 0.0).rest_s()
        longest_s = rest_s / 5  # a rack takes twice as long; a fifth of what is lost
        assert rest_s == pytest.approx(100 * HOUR_S, rel=0.2)
        assert deferred_s(delay, record(), RACK, 0.0) == pytest.approx(longest_s, rel=0.01)
        left_s = longest_s - 3_000.0
        assert deferred_s(delay, record(), RACK, 3_000.0) == pytest.approx(left_s, rel=0.01)

    def test_a_lease_bounds_the_cost_of_a_bad_place(self) -> None:
        stays, moves = gate(longest_s=600.0), gate(longest_s=600.0, lease_s=60.0)
        for delay in (stays, moves):
            knows(delay, *[600.0] * 100)
            runs_for(delay, 100 * HOUR_S)
        assert deferred_s(stays, record(), RACK, 0.0) == 600
        assert deferred_s(moves, record(), RACK, 0.0) == 0

    def test_censored_waits_teach_jobs_not_to_wait(self) -> None:
        delay = gate()
        runs_for(delay, 2 * HOUR_S)
        assert deferred_s(delay, record(), RACK, 0.0) > 0
        for _ in range(100):
            delay.timers.add(EIGHT_HIGH, NODE, WaitSample(0.0, 7_200.0, False))
        assert deferred_s(delay, record("2"), RACK, 0.0) == 0


class TestLearning:
    def test_an_answered_wait_is_a_sample(self) -> None:
        delay, patient = gate(), record()
        assert deferred_s(delay, patient, RACK, 100.0) > 0
        delay.note(outcome(patient, NODE, 160.0))
        (view,) = delay.timers.views(200.0)
        assert (view.name, view.sample_count, view.censored_frac) == ("8/high", 1, 0.0)
        assert waits_of(delay) == [("8/high", NODE, 60.0, True)]

    @pytest.mark.parametrize("tier", [RACK, ACROSS, None])
    def test_a_wait_that_was_given_up_is_censored(self, tier: Tier | None) -> None:
        delay, patient = gate(), record()
        assert deferred_s(delay, patient, RACK, 100.0) > 0
        delay.note(outcome(patient, tier, 160.0))
        assert delay.timers.views(200.0)[0].censored_frac == 1.0
        assert waits_of(delay) == [("8/high", NODE, 60.0, False)]

    def test_a_rack_answers_the_wait_for_a_rack_but_not_for_a_node(self) -> None:
        delay, patient = gate(), record()
        assert deferred_s(delay, patient, ACROSS, 0.0) > 0
        delay.note(outcome(patient, RACK, 60.0))
        assert waits_of(delay) == [("8/high", NODE, 60.0, False), ("8/high", RACK, 60.0, True)]

    def test_a_job_that_took_its_offer_at_once_is_counted_but_is_no_sample(self) -> None:
        delay, hurried = gate(), record()
        runs_for(delay, 1.0)
        assert deferred_s(delay, hurried, RACK, 0.0) == 0
        delay.note(outcome(hurried, RACK, 2.0))
        delay.note(outcome(record("2"), NODE, 0.0))
        assert waits_of(delay) == []
        assert [(v.name, v.sample_count, v.waited_count) for v in delay.timers.views(9.0)] == [
            ("8/high", 2, 0)
        ]

    def test_jobs_that_plain_slurm_took_are_no_sample(self) -> None:
        delay = gate()
        delay.note(outcome(record(), None, 5.0))
        assert delay.timers.views(9.0) == ()

    def test_speed_and_length_of_runs_are_learned(self) -> None:
        delay = DelayGate()
        delay.predictors.run_ended(
            run(record(name="train"), 0.0, 100.0, ("a0", "a1"), speed_frac=0.9)
        )
        state = delay.predictors.state()
        assert [kind for kind, _ in state.speed.seen] == ["1000 8 train"]
        row = state.history.kinds.index("user 1000 name train")
        assert state.history.last_s[row, 0] == pytest.approx(90.0)


class TestPins:
    def test_a_pinned_timer_applies_even_where_waiting_does_not_pay(self) -> None:
        delay = gate()
        runs_for(delay, 1.0)
        delay.timers.pin("8/high", 300.0)
        assert deferred_s(delay, record(), RACK, 100.0) == 300
        assert deferred_s(delay, record(), RACK, 400.0) == 0

    def test_a_pinned_timer_applies_to_insensitive_jobs(self) -> None:
        delay = gate(Speeds(TierSpeeds(1.0, 1.0, 1.0)))
        delay.timers.pin("8/low", 300.0)
        assert deferred_s(delay, record(), RACK, 0.0) == 300

    def test_caps_bound_a_pinned_timer(self) -> None:
        delay = gate(longest_s=60.0)
        delay.timers.pin("8/high", 300.0)
        assert deferred_s(delay, record(), RACK, 0.0) == 60

    def test_no_job_waits_with_a_timer_pinned_to_0(self) -> None:
        delay = gate()
        runs_for(delay, 100 * HOUR_S)
        delay.timers.pin("8/high", 0.0)
        assert deferred_s(delay, record(), RACK, 0.0) == 0

    def test_an_unpinned_timer_is_tuned_again(self) -> None:
        delay = gate()
        delay.timers.pin("8/high", 300.0)
        delay.timers.pin("8/high", None)
        delay.timers.pin("4/high", None)
        runs_for(delay, 1.0)
        assert deferred_s(delay, record(), RACK, 0.0) == 0

    @pytest.mark.parametrize(("name", "pinned_s"), [("9/high", 5.0), ("", 5.0), ("8/high", nan)])
    def test_a_pin_of_an_unknown_timer_or_to_no_time_is_ignored(
        self, name: str, pinned_s: float
    ) -> None:
        delay = gate()
        delay.timers.pin(name, pinned_s)
        assert delay.timers.pins == {}


class TestAdaptation:
    """The lengths of the waits change; the timer must follow within 200 jobs."""

    @pytest.mark.parametrize(("before_s", "after_s"), [(120.0, 1_200.0), (1_200.0, 120.0)])
    def test_timers_follow_within_200_jobs(self, before_s: float, after_s: float) -> None:
        delay, at_s = gate(), 0.0
        runs_for(delay, 100 * HOUR_S)
        for number in range(400):
            at_s = self.one_job(delay, number, before_s, at_s)
        assert delay.timers.views(at_s)[0].node_timer_s == pytest.approx(2 * before_s, rel=0.1)
        for number in range(400, 600):
            at_s = self.one_job(delay, number, after_s, at_s)
        assert delay.timers.views(at_s)[0].node_timer_s == pytest.approx(2 * after_s, rel=0.1)

    def one_job(self, delay: DelayGate, number: int, scale_s: float, at_s: float) -> float:
        """Let one job wait and the next come a minute later.

        The waits are evenly spread from 0.2 to 2.2 times `scale_s`; nine in ten are below 2.
        """
        patient = record(str(number), queued_s=at_s)
        deferred_s(delay, patient, RACK, at_s)
        waited_s = scale_s * (0.2 + 2.0 * ((number * 61) % 100 + 0.5) / 100)
        delay.note(outcome(patient, NODE, at_s + waited_s))
        return at_s + 60.0


class TestHostile:
    def test_decides_without_any_history(self) -> None:
        delay = DelayGate()
        for gpus in (1, 2, 4, 8, 16, 32, 64, 512):
            for tier in (NODE, RACK, ACROSS):
                verdict = delay.decide(offer(record(str(gpus), gpus), tier, 0.0))
                assert isinstance(verdict, Allow) or 0 < verdict.until_s <= 7_200

    def test_a_defer_always_ends_later_than_now(self) -> None:
        delay, patient = gate(), record(queued_s=1e9)
        runs_for(delay, 100 * HOUR_S)
        at_s = 1e9 + 0.3
        for _ in range(1_000):
            verdict = delay.decide(offer(patient, RACK, at_s))
            if isinstance(verdict, Allow):
                return
            assert verdict.until_s > at_s
            at_s = verdict.until_s
        pytest.fail("it never gives in")

    def test_a_job_that_fits_nowhere_is_allowed(self) -> None:
        giant = waiting(job("1", shape(64)))
        assert DelayGate().decide(offer(giant, ACROSS, 0.0)) == Allow()

    @pytest.mark.parametrize("limit_s", [nan, 0.0, -1.0])
    def test_absurd_time_limits_do_not_defer_for_ever(self, limit_s: float) -> None:
        delay = gate(longest_s=600.0)
        runs_for(delay, 100 * HOUR_S)
        assert deferred_s(delay, record(limit_s=limit_s), RACK, 0.0) == 600

    @pytest.mark.parametrize(
        "options",
        [
            {"delay_weight": -1.0},
            {"crowding_weight": nan},
            {"limit_frac": -0.1},
            {"longest_s": nan},
            {"idle_frac": -1.0},
            {"lease_s": 0.0},
        ],
    )
    def test_refuses_absurd_numbers(self, options: dict[str, float]) -> None:
        with pytest.raises(ValueError, match="want"):
            DelayConfig(**options)  # type: ignore[arg-type]

    def test_caps_may_be_switched_off(self) -> None:
        delay = gate(longest_s=inf, limit_frac=inf)
        runs_for(delay, 100 * HOUR_S)
        assert deferred_s(delay, record(limit_s=1_000 * HOUR_S), RACK, 0.0) > 0


class TestState:
    def busy(self) -> DelayGate:
        delay = gate()
        runs_for(delay, 10 * HOUR_S)
        for number in range(20):
            patient = record(str(number), queued_s=number)
            deferred_s(delay, patient, ACROSS, float(number))
            delay.note(outcome(patient, (NODE, RACK, None)[number % 3], 50.0 + number))
        delay.timers.pin("4/high", 77.0)
        deferred_s(delay, record("waits"), RACK, 100.0)
        return delay

    def test_a_restored_gate_decides_the_same(self) -> None:
        delay, copy = self.busy(), gate()
        copy.restore(decode(encode(delay.state()), DelayState))
        copy.predictors.restore(decode(encode(delay.predictors.state()), PredictorsState))
        assert copy.timers.views(200.0) == delay.timers.views(200.0)
        for tier in (RACK, ACROSS):
            for name in ("waits", "new"):
                asked = offer(record(name), tier, 200.0)
                same, first = copy.decide(asked), delay.decide(asked)
                assert type(same) is type(first)
                if isinstance(first, Defer) and isinstance(same, Defer):  # kept as float32
                    assert same.until_s == pytest.approx(first.until_s)

    def test_a_state_does_not_change_after_it_was_taken(self) -> None:
        delay = self.busy()
        state = delay.state()
        before = encode(state)
        delay.note(outcome(record("waits"), NODE, 300.0))
        runs_for(delay, 5.0)
        assert encode(state) == before

    def test_the_same_history_gives_the_same_state(self) -> None:
        assert encode(self.busy().state()) == encode(self.busy().state())


def test_the_number_of_remembered_waits_is_bounded() -> None:
    delay = gate()
    for number in range(1_000):
        patient = record(str(number), queued_s=number)
        deferred_s(delay, patient, RACK, float(number))
        delay.note(outcome(patient, NODE, number + 30.0))
    state = delay.state()
    assert len(state.timers.waits) <= 3 * TimerConfig().window_count
    assert state.waits == ()


def waits_of(delay: DelayGate) -> list[tuple[str, int, float, bool]]:
    """Return (pool, tier, seconds, is answered) of the waits in the pool of class 8/high."""
    return [
        (pool, target, wait.waited_s, wait.is_answered)
        for pool, target, wait in delay.state().timers.waits
        if pool == "8/high"
    ]


class TestUplinks:
    """Jobs for which the table has no loss across racks, on racks that share their uplinks."""

    SAME = Speeds(TierSpeeds(1.0, 0.9, 0.9))

    def test_a_job_waits_for_a_rack_for_a_share_of_its_run(self) -> None:
        delay = gate(self.SAME, uplink_frac=0.1)
        runs_for(delay, 2_000.0, gpus=16)
        waiter = record(gpus=16)
        rest_s = delay.predictors.run_times(waiter, 0.0).rest_s()
        assert deferred_s(delay, waiter, ACROSS, 0.0, waiting_count=2) == pytest.approx(
            0.1 * rest_s
        )
        assert deferred_s(delay, waiter, ACROSS, 0.1 * rest_s, waiting_count=2) == 0.0

    def test_never_for_longer_than_half_an_hour(self) -> None:
        delay = gate(self.SAME, uplink_frac=1.0)
        runs_for(delay, 500_000.0, gpus=16)
        assert deferred_s(delay, record(gpus=16), ACROSS, 0.0, waiting_count=2) == 1_800.0

    def test_not_where_a_rack_is_offered_or_could_never_hold_the_job(self) -> None:
        delay = gate(self.SAME, uplink_frac=0.1)
        assert deferred_s(delay, record(gpus=16), RACK, 0.0, waiting_count=2) == 0.0
        assert deferred_s(delay, record(gpus=32), ACROSS, 0.0, waiting_count=2) == 0.0

    def test_by_default_no_job_waits_for_the_uplinks(self) -> None:
        assert deferred_s(gate(self.SAME), record(gpus=16), ACROSS, 0.0, waiting_count=2) == 0.0

    def test_a_pinned_timer_replaces_it(self) -> None:
        delay = gate(self.SAME, uplink_frac=0.1)
        delay.timers.pin("16/low", 7.0)
        assert deferred_s(delay, record(gpus=16), ACROSS, 0.0, waiting_count=2) == 7.0

    def test_a_wait_that_pays_more_is_longer(self) -> None:
        delay = gate(uplink_frac=0.001)
        sensitive = deferred_s(gate(), record(gpus=16), ACROSS, 0.0, waiting_count=2)
        assert deferred_s(delay, record(gpus=16), ACROSS, 0.0, waiting_count=2) == sensitive > 60.0

    def test_not_while_no_other_job_waits(self) -> None:
        assert deferred_s(gate(self.SAME, uplink_frac=0.1), record(gpus=16), ACROSS, 0.0) == 0.0
