"""Roost beside a site's own job_submit.lua: a module that the site's script takes in.

The site's script keeps every line of its own and gets three, each marked with "-- roost".
"""

import re
from pathlib import Path

from roost_slurm.shipped import read_shipped
from roost_slurm.site.submit_script import SAFE_PATH

MODULE_NAME = "roost_job_submit.lua"
_MARK = "-- roost"
_OURS = "-- Roost: gives a GPU job a short lease"
_RETURN = re.compile(r"return\b")
_NO_CODE = re.compile(r"\s*(?:--.*)?$")


class LuaMergeError(ValueError):
    """A script cannot be joined with Roost's; says why and what to do."""


def is_roosts_own(script: str) -> bool:
    """Return whether a job_submit.lua is the generated one, not a site's."""
    return script.startswith(_OURS)


def as_module(script: str) -> str:
    """Return the generated job_submit.lua as a module, which hands its two functions out.

    Raises:
        LuaMergeError: the text is not the generated script.
    """
    body, found, _ = script.partition("function slurm_job_submit(")
    if not found or not is_roosts_own(script):
        raise LuaMergeError("no job_submit.lua of `roost-slurm config`; cure: make it again")
    return body + read_shipped("lua/site_module.lua")


def merged(own: str, module: Path) -> str:
    """Return a site's script with the lines that call Roost after the site's own functions.

    A fault of the module leaves the site's functions as they are. Lines of an earlier merge are
    replaced.

    Args:
        own: the site's script.
        module: where Roost's module is.

    Raises:
        LuaMergeError: the path cannot stand in a Lua string.
    """
    if not SAFE_PATH.fullmatch(str(module)):
        raise LuaMergeError(f"{module}: want an absolute path of plain characters")
    lines = without(own).splitlines()
    added = [
        f'local roost_found, roost = pcall(dofile, "{module}") {_MARK}',
        f"if roost_found then slurm_job_submit = roost.submit(slurm_job_submit) end {_MARK}",
        f"if roost_found then slurm_job_modify = roost.modify(slurm_job_modify) end {_MARK}",
    ]
    at = _end_of(lines)
    return "\n".join([*lines[:at], *added, *lines[at:]]) + "\n"


def _end_of(lines: list[str]) -> int:
    """Return where lines can be added: before the script's last `return`, else at its end."""
    code = [number for number, line in enumerate(lines) if not _NO_CODE.match(line)]
    if code and _RETURN.match(lines[code[-1]]):
        return code[-1]
    # Lua takes nothing after the `return` that ends a script. One that spans lines, or is not
    # indented inside a function, cannot be told apart from it here.
    if any(_RETURN.match(lines[number]) for number in code):
        raise LuaMergeError(
            "a `return` at the start of a line is not the last line;"
            " cure: indent it, or end the script with `return slurm.SUCCESS`"
        )
    return len(lines)


def without(own: str) -> str:
    """Return a site's script without Roost's lines."""
    return "".join(
        line for line in own.splitlines(keepends=True) if not line.rstrip().endswith(_MARK)
    )
