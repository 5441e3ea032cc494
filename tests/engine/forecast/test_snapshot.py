"""A past arrival that comes again has the key of its new time."""

from math import inf

from roost_engine.forecast.snapshot import PastArrival


def test_only_the_parts_that_are_times_move() -> None:
    past = PastArrival(
        at_s=100.0,
        wish=0,
        key=(0, -5, 700.0, "7"),
        time_parts=(2,),
        limit_s=inf,
        run_s=None,
        row=0,
    )
    assert past.key_at(150.0) == (0, -5, 750.0, "7")
    assert past.key_at(100.0) == past.key
