"""timers: the curve that each class uses, the wider pools behind it, and the views."""

from math import inf, nan

import pytest
from tests.engine.offers import NODE, RACK

from roost_engine.gate.timers import TimerConfig, Timers
from roost_engine.gate.waiting_curve import WaitSample
from roost_engine.prediction.speed.job_class import ALL_CLASSES, TimerClass

HIGH, MID, OTHER = TimerClass.of(8, 0.5), TimerClass.of(8, 0.1), TimerClass.of(2, 0.5)
PRIOR_S = TimerConfig().prior_wait_s


def learn(timers: Timers, key: TimerClass, *waits_s: float, target: int = NODE) -> None:
    for number, waited_s in enumerate(waits_s):
        timers.add(key, target, WaitSample(float(number), waited_s, True))


def test_without_history_a_timer_comes_from_the_prior() -> None:
    # Of exponential waits with mean 1800 s nine in ten end within 1800 · ln 10 = 4145 s.
    assert Timers().timer_s(HIGH, NODE, 0.0) == pytest.approx(PRIOR_S * 2.3026, rel=0.1)


def test_t_r_is_t_m_and_the_quantile_of_waits_for_a_rack() -> None:
    timers = Timers()
    learn(timers, HIGH, *[100.0] * 100)
    learn(timers, HIGH, *[40.0] * 100, target=RACK)
    assert timers.timer_s(HIGH, NODE, 100.0) == 100
    assert timers.timer_s(HIGH, RACK, 100.0) == 140


def test_a_class_with_one_wait_uses_the_waits_of_its_gpu_count() -> None:
    timers = Timers()
    learn(timers, MID, *[100.0] * 50)
    learn(timers, HIGH, 9_000.0)
    assert timers.timer_s(HIGH, NODE, 50.0) == 100


def test_an_unknown_gpu_count_uses_the_waits_of_all_jobs() -> None:
    timers = Timers()
    learn(timers, HIGH, *[100.0] * 50)
    assert timers.timer_s(OTHER, NODE, 50.0) == 100


def test_a_class_with_enough_waits_uses_its_own() -> None:
    timers = Timers()
    learn(timers, HIGH, *[100.0] * 50)
    learn(timers, OTHER, *[700.0] * 50)
    assert timers.timer_s(OTHER, NODE, 50.0) == 700


def test_old_waits_fade_towards_the_prior() -> None:
    timers = Timers()
    learn(timers, HIGH, *[100.0] * 50)
    later_s = 20 * TimerConfig().half_life_s
    assert timers.timer_s(HIGH, NODE, later_s) == pytest.approx(PRIOR_S * 2.3026, rel=0.1)


def test_a_new_wait_changes_the_timer_at_once() -> None:
    timers = Timers()
    learn(timers, HIGH, *[100.0] * 100)
    assert timers.timer_s(HIGH, NODE, 100.0) == 100
    learn(timers, HIGH, *[300.0] * 100)
    assert timers.timer_s(HIGH, NODE, 100.0) == 300


def test_censored_waits_alone_make_long_timers() -> None:
    timers = Timers()
    for number in range(50):
        timers.add(HIGH, NODE, WaitSample(float(number), 3_000.0, False))
    # The prior has 1.5 answers, for 150,000 s of censored waits and 3,600 s of its own.
    assert timers.timer_s(HIGH, NODE, 50.0) > 100_000


class TestViews:
    def test_without_waits_there_are_no_views(self) -> None:
        assert Timers().views(0.0) == ()

    def test_a_view_shows_the_counts(self) -> None:
        timers = Timers()
        timers.count(HIGH, has_waited=False, is_answered=True)
        timers.count(HIGH, has_waited=True, is_answered=True)
        timers.count(HIGH, has_waited=True, is_answered=False)
        learn(timers, HIGH, 50.0)
        (view,) = timers.views(1.0)
        assert (view.name, view.sample_count, view.waited_count) == ("8/high", 3, 2)
        assert view.censored_frac == 0.5
        assert view.tuned_s == 0.0
        assert view.pinned_s is None

    def test_a_class_that_never_waited_has_no_censored_fraction(self) -> None:
        timers = Timers()
        timers.count(MID, has_waited=False, is_answered=True)
        assert timers.views(0.0)[0].censored_frac is None

    def test_a_view_shows_dallys_timers(self) -> None:
        timers = Timers()
        # Leases are of an hour, and shorter waits are not recorded: 10 leases for a node, no wait
        # for a rack.
        learn(timers, HIGH, 36_000.0, 1_800.0)
        timers.count(HIGH, has_waited=True, is_answered=True)
        (view,) = timers.views(2.0)
        assert view.dally_node_timer_s == 10 * 3_600
        assert view.dally_rack_timer_s == 12 * 3_600

    def test_a_pinned_class_is_shown_without_waits(self) -> None:
        timers = Timers(pins={"64/high": 120.0})
        (view,) = timers.views(0.0)
        assert (view.name, view.node_timer_s, view.rack_timer_s) == ("64/high", 120.0, 120.0)

    def test_views_are_in_order_of_gpu_count_then_sensitivity(self) -> None:
        timers = Timers()
        for key in reversed(ALL_CLASSES):
            timers.count(key, has_waited=False, is_answered=True)
        names = [view.name for view in timers.views(0.0)]
        assert names[:4] == ["1/high", "1/low", "1/mid", "2/high"]
        assert len(names) == len(ALL_CLASSES)


def test_a_restored_state_gives_the_same_views() -> None:
    timers, copy = Timers(), Timers()
    learn(timers, HIGH, *[100.0, 700.0] * 30)
    learn(timers, OTHER, *[30.0] * 30, target=RACK)
    timers.count(HIGH, has_waited=True, is_answered=False)
    timers.pins["8/mid"] = 5.0
    copy.restore(timers.state())
    assert copy.views(100.0) == timers.views(100.0)
    assert copy.state() == timers.state()


@pytest.mark.parametrize(
    "options",
    [
        {"quantile_frac": 0.0},
        {"quantile_frac": 1.0},
        {"quantile_frac": nan},
        {"half_life_s": 0.0},
        {"half_life_s": inf},
        {"prior_wait_s": nan},
        {"prior_count": -1.0},
    ],
)
def test_refuses_absurd_numbers(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="want"):
        TimerConfig(**options)  # type: ignore[arg-type]
