"""Whether hooks and scripts on this machine are of the installed Roost, or of an older one."""

import re
from collections.abc import Iterator
from pathlib import Path

from roost_slurm.doctor.doctor import Finding, Level, Looked
from roost_slurm.shipped import read_shipped
from roost_slurm.site import submit_script
from roost_slurm.site.config import HOOK_KEYS

_LUA = "-- Roost: "
_HOOK = re.compile(r"(?m)^ROOST_SLURM=")
_SITES_VALUES = re.compile(
    r"(?m)^(?:(local (?:HEARTBEAT|SPOOL|MODELS?|COUNTED|SEATS) = )(?:\"[^\"]*\"|true|false)"
    r"|((?:ROOST_SLURM|RUNTIME_FOLDER|OPTIONS)=).*$)"
)


def versions(looked: Looked) -> Iterator[Finding]:
    """Compare Slurm's hooks and scripts with what this Roost would write, but for site's values."""
    found = tuple(_installed(looked))
    other = [path for path, text, shipped in found if _plain(text) != _plain(shipped)]
    if other:
        names = ", ".join(map(str, other))
        yield Finding(
            "versions",
            looked.later(),
            f"of another version than this roost-slurm: {names}",
            "on the controller roost-slurm config --out FOLDER --force, install --files FOLDER;"
            " on nodes copy the controller's; docs/install.md, Update",
        )
    elif found:
        yield Finding("versions", Level.FINE, "hooks and scripts are those of this roost-slurm")


def _installed(looked: Looked) -> Iterator[tuple[Path, str, str]]:
    """Yield Roost's files that Slurm reads on this machine: path, text, and text of this Roost."""
    for name in HOOK_KEYS.values():
        source = "hooks/spool.sh" if name.endswith("-slurmctld") else "hooks/hook.sh"
        yield from _there(looked, looked.hooks_folder / f"{name}.sh", read_shipped(source))
    if conf := looked.config.get("SLURM_CONF"):
        script = submit_script.template()
        yield from _there(looked, Path(conf).with_name("job_submit.lua"), script)
        module = script.partition("function slurm_job_submit(")[0]  # see install_lua.as_module
        module += read_shipped("lua/site_module.lua")
        yield from _there(looked, Path(conf).with_name("roost_job_submit.lua"), module)
        of_clients = submit_script.template("cli_filter.lua")
        yield from _there(looked, Path(conf).with_name("cli_filter.lua"), of_clients)


def _there(looked: Looked, path: Path, shipped: str) -> Iterator[tuple[Path, str, str]]:
    """Yield a file that is there and is Roost's, not a site's own script, which may call it."""
    try:
        text = looked.at(path).read_text("utf-8", "replace")
    except OSError:
        return  # other checks say what is missing
    if text.startswith(_LUA) if path.suffix == ".lua" else _HOOK.search(text):
        yield path, text, shipped


def _plain(text: str) -> str:
    """Return a file's text without what `roost-slurm config` writes for one site."""
    return _SITES_VALUES.sub(r"\1\2", text)
