"""What a site's slurm.conf has already of the lines in roost.conf, and what to do about it.

A key that stands in both files counts twice for Slurm, or the later one wins without a word. So
roost.conf keeps only the keys that the site has not set; for the others the site is told.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roost_slurm.site.conf_text import all_lines
from roost_slurm.site.config import HOOK_KEYS
from roost_slurm.site.submit_script import SAFE_PATH

_LISTS = frozenset({"GresTypes", "JobSubmitPlugins", "PrologFlags"})
_PAIR = re.compile(r"""(?:^|\s)(\w+)\s*=\s*("[^"]*"|\S+)""")


@dataclass(frozen=True, slots=True)
class ConfLine:
    """One setting and where it stands."""

    value: str
    where: str  # "slurm.conf:12"


@dataclass(slots=True)
class Adapted:
    """roost.conf for one site.

    Attributes:
        text: the file.
        wrappers: the text of each script that runs the site's hook and Roost's, by file name.
        to_do: what the site has to change in its own slurm.conf.
    """

    text: str = ""
    wrappers: dict[str, str] = field(default_factory=dict)
    to_do: list[str] = field(default_factory=list)


def settings(path: Path) -> dict[str, ConfLine]:
    """Read the settings of a slurm.conf and of what it includes; keys as in HOOK_KEYS, any case.

    Included files that cannot be read are left out, and so is Roost's own.

    Raises:
        OSError: the file cannot be read.
    """
    found: dict[str, ConfLine] = {}
    for file, line in all_lines(path):
        for key, value in _PAIR.findall(line.text):
            # Of a key that stands there twice Slurm takes the latest value.
            found[key.lower()] = ConfLine(value.strip('"'), f"{file}:{line.number}")
    return found


def adapt(roost_conf: str, own: Mapping[str, ConfLine], hooks_folder: Path) -> Adapted:
    """Return roost.conf without the keys that the site has set itself."""
    result = Adapted()
    lines = list(_adapted(roost_conf.splitlines(), own, hooks_folder, result))
    result.text = "\n".join(lines) + "\n"
    return result


def _adapted(
    lines: list[str], own: Mapping[str, ConfLine], hooks_folder: Path, result: Adapted
) -> Iterator[str]:
    for line in lines:
        key, _, value = line.partition("=")
        site = own.get(key.lower())
        if line.startswith("#") or site is None:
            yield line
            continue
        yield f"# {line}  # {site.where} has {key}={site.value}"
        if key in HOOK_KEYS:
            _take_hook(key, value, site, hooks_folder, result)
        elif key in _LISTS:
            present = site.value.split(",")
            known = {word.rpartition("/")[2].lower() for word in present}  # also job_submit/lua
            missing = [word for word in value.split(",") if word.lower() not in known]
            if missing:
                both = ",".join([*present, *missing])
                result.to_do.append(f"{site.where}: change {key}={site.value} to {key}={both}")


def _take_hook(key: str, value: str, site: ConfLine, hooks_folder: Path, result: Adapted) -> None:
    name = f"site-{HOOK_KEYS[key]}.sh"
    both = hooks_folder / name
    if site.value in (value, str(both)):
        if site.value == str(both):
            result.wrappers[name] = ""  # as it is
        return
    if not SAFE_PATH.fullmatch(site.value):
        result.to_do.append(
            f"{site.where}: {key}={site.value} is no single program: let it run {value} at its end"
        )
        return
    result.wrappers[name] = wrapper(site.value, value)
    result.to_do.append(f"{site.where}: change {key}={site.value} to {key}={both}")


def wrapper(own: str, roosts: str) -> str:
    """Return a script that runs the site's own hook and then Roost's.

    The site's exit code and output stay as they were; Roost's script exits with 0 in any case.
    """
    return (
        "#!/bin/sh\n"
        "# Made by `roost-slurm install`: the site's script, then Roost's, which always exits 0.\n"
        f'"{own}" "$@"\n'
        "status=$?\n"
        f'[ ! -x "{roosts}" ] || "{roosts}" "$@"\n'
        'exit "$status"\n'
    )
