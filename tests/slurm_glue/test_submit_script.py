"""job_submit.lua with the settings of one site."""

from pathlib import Path

import pytest

from roost_slurm import submit_script
from roost_slurm.submit_script import SubmitScriptError


def test_stays_under_a_hundred_lines() -> None:
    assert len(submit_script.template().splitlines()) < 100


@pytest.mark.parametrize("path", ["relative", '/a"b', "/a\nb", "/a\\b", "/a b"])
def test_the_generator_refuses_paths_that_lua_would_misread(path: str) -> None:
    with pytest.raises(SubmitScriptError):
        submit_script.render(Path(path), Path("/run/spool"))


def settings(script: str) -> list[str]:
    """The lines at the top that a site sets."""
    names = ("HEARTBEAT", "SPOOL", "MODELS", "SEATS")
    lines = (line.partition("--")[0].rstrip() for line in script.splitlines())
    return [line for line in lines if line.startswith(tuple(f"local {name} " for name in names))]


def test_the_settings_of_a_site_replace_the_defaults() -> None:
    script = submit_script.render(Path("/srv/beat"), Path("/srv/spool"), ["a100", "t4"], seats=True)
    assert settings(script) == [
        'local HEARTBEAT = "/srv/beat"',
        'local SPOOL = "/srv/spool"',
        'local MODELS = "a100,t4"',
        "local SEATS = true",
    ]
    assert len(script.splitlines()) == len(submit_script.template().splitlines())


def test_the_shipped_script_has_the_default_settings() -> None:
    rendered = submit_script.render(Path("/run/roost/heartbeat"), Path("/run/roost/spool/events"))
    assert rendered == submit_script.template()


@pytest.mark.parametrize("model", ["A100", "", 'a"b', "a,b", "a b", "a\n"])
def test_models_that_lua_or_the_heartbeat_would_misread_are_refused(model: str) -> None:
    with pytest.raises(SubmitScriptError, match="want lower-case letters"):
        submit_script.render(Path("/run/beat"), Path("/run/spool"), [model])


def test_a_template_without_a_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = submit_script.template().replace("local SPOOL =", "local SPOOL_FILE =")
    monkeypatch.setattr(submit_script, "template", lambda: text)
    with pytest.raises(SubmitScriptError, match="has 0 lines `local SPOOL =`, want 1"):
        submit_script.render(Path("/run/beat"), Path("/run/spool"))
