"""output.logins: the machine's name of a user, else the number, else a dash."""

from roostctl.output.logins import login, login_of
from roostctl.testing import build_job

_NO_USER = 4_000_000_000


def test_a_user_that_this_machine_does_not_know_is_a_number() -> None:
    assert login_of(0) == "root"
    assert login_of(_NO_USER) == str(_NO_USER)


def test_a_job_without_a_user_has_a_dash() -> None:
    assert login(build_job("1", user_id=None)) == "-"
    assert login(build_job("1", user_id=0)) == "root"
