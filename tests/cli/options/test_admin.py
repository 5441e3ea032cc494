"""admin: where changes go, and who asks for them."""

import pytest

from roostctl.options.admin import admin_address, caller_name
from roostctl.options.common import Options


@pytest.mark.parametrize(
    ("daemon", "given", "found"),
    [
        ("unix:/run/roost/operator.sock", "", "unix:/run/roost/admin.sock"),
        ("unix:/x/operator.sock", "", "unix:/x/admin.sock"),
        ("gpu-head:7000", "", "unix:/run/roost/admin.sock"),
        ("gpu-head:7000", "unix:/a.sock", "unix:/a.sock"),
    ],
)
def test_the_admin_socket_lies_beside_the_operators(daemon: str, given: str, found: str) -> None:
    assert admin_address(Options(daemon, 5.0), given) == found


def test_under_sudo_the_user_who_called_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")
    assert caller_name() == "alice"
