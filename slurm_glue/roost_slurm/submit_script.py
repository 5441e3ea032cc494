"""job_submit.lua, with the settings of one site written into it."""

import re
from collections.abc import Sequence
from pathlib import Path

from roost_slurm import heartbeat
from roost_slurm.shipped import read_shipped

SAFE_PATH = re.compile(r"/[A-Za-z0-9_./+@%:-]+")


class SubmitScriptError(ValueError):
    """A setting cannot be written into the script."""


def template() -> str:
    """Return the script as shipped, with the default paths."""
    return read_shipped("lua/job_submit.lua")


def render(
    heartbeat_file: Path, spool_file: Path, models: Sequence[str] = (), *, seats: bool = False
) -> str:
    """Return the script for one site.

    Args:
        heartbeat_file: the file that roostd writes.
        spool_file: the file that roostd reads.
        models: lower-case GPU models of the cluster, also accepted while roostd is down.
        seats: whether gres.conf has second seats, so that plain requests need tokens.

    Raises:
        SubmitScriptError: a path or a model would not survive as a Lua string.
    """
    for path in (heartbeat_file, spool_file):
        if not SAFE_PATH.fullmatch(str(path)):
            raise SubmitScriptError(f"{path}: want an absolute path of plain characters")
    for model in models:
        if not heartbeat.is_name(model) or model != model.lower():
            raise SubmitScriptError(f"model {model!r}: want lower-case letters, digits, _ . + -")
    text = template()
    for name, value in (
        ("HEARTBEAT", f'"{heartbeat_file}"'),
        ("SPOOL", f'"{spool_file}"'),
        ("MODELS", f'"{",".join(models)}"'),
        ("SEATS", str(seats).lower()),
    ):
        text, count = re.subn(rf"(?m)^(local {name} = )(\"[^\"]*\"|false)", rf"\g<1>{value}", text)
        if count != 1:
            raise SubmitScriptError(f"job_submit.lua has {count} lines `local {name} =`, want 1")
    return text
