"""The wait before the next try."""

import random

from roost_probe.backoff import Backoff


class Longest(random.Random):
    """Draws the upper end of every range."""

    def uniform(self, a: float, b: float) -> float:
        return b


class Shortest(random.Random):
    """Draws the lower end of every range."""

    def uniform(self, a: float, b: float) -> float:
        return a


def test_the_limit_doubles_up_to_the_most() -> None:
    backoff = Backoff(0.5, 30.0, Longest())
    assert [backoff.next_s() for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_the_wait_is_drawn_from_the_whole_interval() -> None:
    assert Backoff(0.5, 30.0, Shortest()).next_s() == 0.0


def test_a_success_makes_the_next_wait_short_again() -> None:
    backoff = Backoff(0.5, 30.0, Longest())
    for _ in range(5):
        backoff.next_s()
    backoff.reset()
    assert backoff.next_s() == 0.5


def test_an_outage_of_years_does_not_overflow() -> None:
    backoff = Backoff(0.5, 30.0, Longest())
    assert max(backoff.next_s() for _ in range(5000)) == 30.0
