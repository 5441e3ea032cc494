"""A site's own job_submit.lua beside Roost's, in the interpreter that Slurm embeds."""

import errno
from pathlib import Path
from typing import Any

import pytest
from lupa import lua51
from tests.slurm_glue.conftest import Runtime

from roost_slurm.install.install_lua import (
    MODULE_NAME,
    LuaMergeError,
    as_module,
    is_roosts_own,
    merged,
    without,
)

SITE = """-- the site's own
function slurm_job_submit(job, parts, uid)
  if job.account == "closed" then return slurm.ERROR end
  job.comment = "seen"
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, parts, uid) return slurm.SUCCESS end
"""
ENDS = {
    "with return": '\nslurm.log_info("loaded")\nreturn slurm.SUCCESS\n',
    "with return and a comment": "return slurm.SUCCESS -- done\n\n-- the end\n",
    "without return": "",
}


def slurmctld(script: str) -> Any:
    lua = lua51.LuaRuntime(unpack_returned_tuples=True)
    quiet = lua.eval("function(...) end")
    lua.globals().slurm = lua.table_from(
        {"SUCCESS": 0, "ERROR": -1, "log_error": quiet, "log_info": quiet}
    )
    lua.execute(script)
    return lua


def submit(lua: Any, **job: object) -> tuple[int, dict[str, object]]:
    table = lua.table_from({"shared": 65534, "tres_per_node": "gres:gpu:2", **job})
    parts = lua.table_from({"main": lua.table_from({"flag_default": 1})})
    return lua.globals().slurm_job_submit(table, parts, 1000), dict(table.items())


@pytest.fixture
def module(runtime: Runtime, tmp_path: Path) -> Path:
    runtime.beat(lease_s=30)
    path = tmp_path / MODULE_NAME
    path.write_text(as_module(runtime.script()))
    return path


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_the_site_decides_first_and_roost_holds_what_it_lets_through(
    module: Path, end: str
) -> None:
    lua = slurmctld(merged(SITE + end, module))
    answer, job = submit(lua, account="open")
    assert (answer, job["comment"], job["admin_comment"]) == (0, "seen", "roost:lease")
    answer, job = submit(lua, account="closed")
    assert answer == -1
    assert "admin_comment" not in job


def test_roost_has_clients_ask_again_for_what_the_site_lets_through(
    module: Path, runtime: Runtime
) -> None:
    runtime.beat(registered_epoch_s=0)
    lua = slurmctld(merged(SITE, module))
    assert submit(lua, account="open")[0] == errno.EAGAIN
    assert submit(lua, account="closed")[0] == -1


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_what_was_merged_can_be_taken_out(module: Path, end: str) -> None:
    both = merged(SITE + end, module)
    assert merged(both, module) == both
    assert without(both).split() == (SITE + end).split()


def test_three_lines_are_added(module: Path) -> None:
    added = set(merged(SITE, module).splitlines()) - set(SITE.splitlines())
    assert len(added) == 3


@pytest.mark.parametrize("fault", ["", "this is no Lua"])
def test_a_missing_or_broken_module_leaves_the_site_as_it_was(module: Path, fault: str) -> None:
    both = merged(SITE, module)
    if fault:
        module.write_text(fault)
    else:
        module.unlink()
    answer, job = submit(slurmctld(both), account="open")
    assert (answer, job["comment"]) == (0, "seen")
    assert "admin_comment" not in job


def test_the_generated_script_is_known_from_a_sites(runtime: Runtime) -> None:
    assert is_roosts_own(runtime.script())
    assert not is_roosts_own(SITE)
    with pytest.raises(LuaMergeError, match="make it again"):
        as_module(SITE)


def test_a_path_that_lua_would_misread_is_refused() -> None:
    with pytest.raises(LuaMergeError, match="plain characters"):
        merged(SITE, Path('/etc/"'))


def test_a_script_whose_end_is_not_clear_is_left_alone() -> None:
    with pytest.raises(LuaMergeError, match="indent it"):
        merged(SITE + "return {\n  1\n}\n", Path("/etc/slurm/m.lua"))
