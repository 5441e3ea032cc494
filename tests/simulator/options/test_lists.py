"""Option values that are lists."""

import click
import pytest

from roost_sim.options.lists import number_list, seed_list, word_list


def test_lists_keep_their_order_and_drop_repeated_values() -> None:
    assert word_list("sjf, fifo,sjf") == ("sjf", "fifo")
    assert number_list("0.9,0.7,0.90") == (0.9, 0.7)
    assert seed_list("3-5,1,4") == (3, 4, 5, 1)


@pytest.mark.parametrize("text", ["", "a,,b", "a,"])
def test_a_word_that_is_missing_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="want words between commas"):
        word_list(text)


@pytest.mark.parametrize("text", ["0", "1,-2", "inf", "nan", "one"])
def test_numbers_are_finite_and_above_0(text: str) -> None:
    with pytest.raises(click.BadParameter, match="want numbers"):
        number_list(text)


@pytest.mark.parametrize("text", ["5-3", "1.5", "-1", "a", "0-100000", str(2**63)])
def test_seeds_are_integers_in_range(text: str) -> None:
    with pytest.raises(click.BadParameter, match="want"):
        seed_list(text)
