"""The section about roles."""

from pathlib import Path

import pytest

from roost_engine.domain.errors import ConfigError
from roostd.config.loaded_config import load_config
from roostd.config.roles import Others


def test_roles_are_off_by_default_and_then_deny() -> None:
    roles = load_config(None, {}).config.roles
    assert (roles.enabled, roles.others) == (False, Others.NOTHING)
    assert (roles.viewers, roles.operators, roles.admins) == ((), (), ())


def test_a_file_names_users_and_groups(tmp_path: Path) -> None:
    file = tmp_path / "roostd.yaml"
    file.write_text("roles: {enabled: true, admins: [ann, '@hpc', '1000'], others: own-jobs}\n")
    roles = load_config(file, {}).config.roles
    assert roles.admins == ("ann", "@hpc", "1000")
    assert roles.others is Others.OWN_JOBS


@pytest.mark.parametrize("text", ["{others: all}", "{enabled: 1}", "{viewer: [ann]}"])
def test_a_wrong_setting_is_named_with_its_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "roostd.yaml"
    file.write_text(f"roles: {text}\n")
    with pytest.raises(ConfigError, match=r"roostd\.yaml:1: roles\.\w+: "):
        load_config(file, {})
