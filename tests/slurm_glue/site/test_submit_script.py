"""job_submit.lua and cli_filter.lua with the settings of one site."""

from pathlib import Path

import pytest

from roost_slurm.shipped import read_shipped
from roost_slurm.site import submit_script
from roost_slurm.site.submit_script import SubmitScriptError


@pytest.mark.parametrize(
    "name", ["job_submit.lua", "cli_filter.lua", "gpu_request.lua", "job_lease.lua"]
)
def test_each_file_stays_under_a_hundred_lines(name: str) -> None:
    assert len(read_shipped(f"lua/{name}").splitlines()) < 100


@pytest.mark.parametrize("name", ["job_submit.lua", "cli_filter.lua"])
def test_what_both_scripts_share_stands_in_each(name: str) -> None:
    assert submit_script.template(name).count("local function read_list(") == 1


@pytest.mark.parametrize("path", ["relative", '/a"b', "/a\nb", "/a\\b", "/a b"])
def test_the_generator_refuses_paths_that_lua_would_misread(path: str) -> None:
    with pytest.raises(SubmitScriptError):
        submit_script.render(Path(path), Path("/run/spool"))


def settings(script: str) -> list[str]:
    """The lines at the top that a site sets."""
    names = ("HEARTBEAT", "SPOOL", "MODELS", "MODEL", "COUNTED", "SEATS")
    lines = (line.partition("--")[0].rstrip() for line in script.splitlines())
    return [line for line in lines if line.startswith(tuple(f"local {name} " for name in names))]


def test_the_settings_of_a_site_replace_the_defaults() -> None:
    script = submit_script.render(
        Path("/srv/beat"),
        Path("/srv/spool"),
        ["a100", "t4"],
        only_model="a100",
        counts_models=True,
        seats=True,
    )
    assert settings(script) == [
        'local HEARTBEAT = "/srv/beat"',
        'local SPOOL = "/srv/spool"',
        'local MODELS = "a100,t4"',
        'local MODEL = "a100"',
        'local COUNTED = "a100,t4"',
        "local SEATS = true",
    ]
    assert len(script.splitlines()) == len(submit_script.template().splitlines())


def test_the_shipped_script_has_the_default_settings() -> None:
    rendered = submit_script.render(Path("/run/roost/heartbeat"), Path("/run/roost/spool/events"))
    assert rendered == submit_script.template()
    assert submit_script.render_cli_filter([]) == submit_script.template("cli_filter.lua")


@pytest.mark.parametrize("model", ["A100", "", 'a"b', "a,b", "a b", "a\n"])
def test_models_that_lua_or_the_heartbeat_would_misread_are_refused(model: str) -> None:
    with pytest.raises(SubmitScriptError, match="want lower-case letters"):
        submit_script.render(Path("/run/beat"), Path("/run/spool"), [model])
    with pytest.raises(SubmitScriptError, match="want lower-case letters"):
        submit_script.render_cli_filter([model])


def test_a_template_without_a_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    text = submit_script.template().replace("local SPOOL =", "local SPOOL_FILE =")
    monkeypatch.setattr(submit_script, "template", lambda name: text)
    with pytest.raises(SubmitScriptError, match="has 0 lines `local SPOOL =`, want 1"):
        submit_script.render(Path("/run/beat"), Path("/run/spool"))
