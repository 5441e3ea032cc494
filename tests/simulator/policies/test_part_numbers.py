"""Numbers in the name of a policy's part."""

import pytest

from roost_sim.policies.part_numbers import PartNumbersError, parse_numbers


def test_numbers_are_read_by_key() -> None:
    assert parse_numbers("learned:ageing=0.5:window_s=86400") == {
        "ageing": 0.5,
        "window_s": 86_400.0,
    }
    assert parse_numbers("delay") == {}


@pytest.mark.parametrize("name", ["delay:", "delay:longest_s", "delay:longest_s=soon"])
def test_what_is_no_number_is_named(name: str) -> None:
    with pytest.raises(PartNumbersError, match="is not KEY=NUMBER"):
        parse_numbers(name)
