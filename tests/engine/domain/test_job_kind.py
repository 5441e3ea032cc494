"""roost_engine.domain.job_kind: a kind is a user and a name, and can be read again."""

from dataclasses import replace

import pytest

from roost_engine.domain.job_kind import kind_of, user_and_name
from roost_engine.testing.builders import job


@pytest.mark.parametrize("name", ["lm", "two words", " leading", ""])
def test_a_kind_is_read_again(name: str) -> None:
    kind = kind_of(replace(job("1"), user_id=1001, name=name))
    assert user_and_name(kind) == (1001, name)


def test_two_users_share_no_kind() -> None:
    assert kind_of(replace(job("1"), user_id=1)) != kind_of(replace(job("1"), user_id=2))


def test_what_is_no_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        user_and_name("lm")
