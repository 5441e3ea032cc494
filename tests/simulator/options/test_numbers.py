"""Option values that are one number: finite, and inside their range."""

import click
import pytest

from roost_sim.options.numbers import MAX_SEED, SEED, FiniteRange


def test_a_number_in_the_range_is_converted() -> None:
    assert FiniteRange(0, 1)("0.25") == 0.25
    assert SEED(str(MAX_SEED)) == MAX_SEED


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "-1", "x"])
def test_nan_infinity_and_numbers_out_of_range_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        FiniteRange(0)(text)


def test_a_seed_fits_into_eight_bytes() -> None:
    with pytest.raises(click.BadParameter):
        SEED(str(MAX_SEED + 1))
