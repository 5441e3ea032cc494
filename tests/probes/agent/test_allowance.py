"""roost_probe.agent.allowance: a burst, a rate, and users apart from each other."""

from roost_probe.agent.allowance import Allowance


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_user_has_a_burst_and_then_a_rate() -> None:
    clock = Clock()
    allowance = Allowance(3, 2.0, clock)
    assert [allowance.take(7) for _ in range(5)] == [True, True, True, False, False]
    clock.now_s += 0.5
    assert [allowance.take(7) for _ in range(2)] == [True, False]
    clock.now_s += 3600.0
    assert [allowance.take(7) for _ in range(4)] == [True, True, True, False]


def test_one_user_takes_nothing_from_another() -> None:
    allowance = Allowance(1, 1.0, Clock())
    assert [allowance.take(uid) for uid in (7, 7, 8, 8)] == [True, False, True, False]


def test_only_users_whose_bucket_is_full_are_forgotten() -> None:
    clock = Clock()
    allowance = Allowance(2, 1.0, clock)
    for uid in range(1500):
        assert allowance.take(uid)
    clock.now_s += 0.5
    assert [allowance.take(3), allowance.take(3)] == [True, False]
    clock.now_s += 0.5
    assert allowance.take(5000)
    assert list(allowance._left) == [3, 5000]
