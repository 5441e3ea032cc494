"""job_submit.lua and cli_filter.lua, with the settings of one site written into them."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from roost_slurm.hooks import heartbeat
from roost_slurm.shipped import read_shipped

SAFE_PATH = re.compile(r"/[A-Za-z0-9_./+@%:-]+")


class SubmitScriptError(ValueError):
    """A setting cannot be written into the script."""


def template(name: str = "job_submit.lua") -> str:
    """Return a script as shipped, with the default settings.

    The parts that a script names are written into it, as Lua inside Slurm finds no other file
    beside the script. Both scripts read requests with the same part.
    """
    text = read_shipped(f"lua/{name}")
    for part in ("gpu_request.lua", "job_lease.lua"):
        text = text.replace(f"-- {part} stands here.", read_shipped(f"lua/{part}").rstrip())
    return text


def render(
    heartbeat_file: Path,
    spool_file: Path,
    models: Sequence[str] = (),
    *,
    only_model: str = "",
    counts_models: bool = False,
    seats: bool = False,
) -> str:
    """Return job_submit.lua for one site.

    Args:
        heartbeat_file: the file that roostd writes.
        spool_file: the file that roostd reads.
        models: lower-case GPU models of the cluster, also accepted while roostd is down.
        only_model: the model of every GPU of the cluster; "" where there are several.
        counts_models: whether each of `models` has a count-only gres, of which each GPU takes one.
        seats: whether gres.conf has second seats, so that plain requests need tokens.

    Raises:
        SubmitScriptError: a path or a model would not survive as a Lua string.
    """
    for path in (heartbeat_file, spool_file):
        if not SAFE_PATH.fullmatch(str(path)):
            raise SubmitScriptError(f"{path}: want an absolute path of plain characters")
    return _with_settings(
        "job_submit.lua",
        {
            "HEARTBEAT": f'"{heartbeat_file}"',
            "SPOOL": f'"{spool_file}"',
            "MODELS": _words(models),
            "MODEL": _words([only_model] if only_model else []),
            "COUNTED": _words(models if counts_models else []),
            "SEATS": str(seats).lower(),
        },
    )


def render_cli_filter(models: Sequence[str]) -> str:
    """Return cli_filter.lua for a cluster with these GPU models, lower-case.

    Raises:
        SubmitScriptError: a model would not survive as a Lua string.
    """
    return _with_settings("cli_filter.lua", {"MODELS": _words(models)})


def _words(models: Sequence[str]) -> str:
    for model in models:
        if not heartbeat.is_name(model) or model != model.lower():
            raise SubmitScriptError(f"model {model!r}: want lower-case letters, digits, _ . + -")
    return f'"{",".join(models)}"'


def _with_settings(script: str, settings: Mapping[str, str]) -> str:
    text = template(script)
    for name, value in settings.items():
        text, count = re.subn(rf"(?m)^(local {name} = )(\"[^\"]*\"|false)", rf"\g<1>{value}", text)
        if count != 1:
            raise SubmitScriptError(f"{script} has {count} lines `local {name} =`, want 1")
    return text
