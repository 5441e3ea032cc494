"""`roost-slurm install`: puts units, hooks and scripts in place, with the paths of one environment.

It is made in two steps, so that it can be looked at first: a plan, which names each file with its
text, and the writing. What was written stands in a manifest; `uninstall` removes what is still as
it was written, and nothing else.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roost_slurm.install import install_conf, install_lua
from roost_slurm.shipped import read_shipped
from roost_slurm.site.conf_text import fetched_copy, read_conf, written_at

UNITS = {
    "controller": ("roostd.service", "roost-unpin.service", "roost-unpin.timer"),
    "node": ("roost-probe.service",),
}
MANIFEST = Path("etc/roost/installed.json")
_PROBE_DEFAULTS = """\
# The host of roostd and its port, for instance ROOST_DAEMON=control1:7471
ROOST_DAEMON=
# More options of roost-probe, such as --tls-ca, --tls-cert and --tls-key
ROOST_PROBE_OPTIONS=
"""
_DAEMON_CONFIG = """\
# roostd's configuration. In shadow mode Roost decides and records, and changes no job.
mode: shadow
"""
_JOB_MAP = """\
# For dcgm-exporter --hpc-job-mapping-dir: /run is empty after a reboot.
d /run/roost 0755 - - -
d /run/roost/job-map 0755 root root -
"""
_HIDDEN = ("/home/", "/root/", "/run/user/")


class InstallError(ValueError):
    """Something stands in the way; says what, and the cure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where things are.

    Attributes:
        prefix: the virtual environment, or /opt/roost of the packages.
        root: what stands before every path that is written; "/" but in tests.
        slurm_folder: where slurm.conf is.
        hooks_folder: what roost.conf names.
    """

    prefix: Path = field(default_factory=lambda: Path(sys.prefix))
    root: Path = Path("/")
    slurm_folder: Path = Path("/etc/slurm")
    hooks_folder: Path = Path("/etc/slurm/hooks")

    def at(self, path: Path | str) -> Path:
        """Return where a path lies below the root."""
        return self.root / str(path).lstrip("/")


@dataclass(slots=True)
class Plan:
    """What would be written.

    Attributes:
        files: text by path, without the root.
        merged: scripts of the site that get lines of Roost.
        kept: files that are there and stay, with the reason.
        to_do: what is left to the operator.
    """

    files: dict[Path, str] = field(default_factory=dict)
    merged: list[Path] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    to_do: list[str] = field(default_factory=list)


def plan_units(site: Site, roles: Iterable[str]) -> Plan:
    """Plan units and what they read.

    Raises:
        InstallError: a program is missing, or the environment is where services cannot see it.
    """
    plan = Plan()
    if f"{site.prefix}/".startswith(_HIDDEN):
        raise InstallError(
            f"{site.prefix}: units have ProtectHome, and SlurmUser cannot enter it;"
            " cure: python3 -m venv /opt/roost"
        )
    units = Path("/etc/systemd/system")
    for role in roles:
        for name in UNITS[role]:
            text = read_shipped(f"systemd/{name}")
            for program in re.findall(r"(?m)^ExecStart=/usr/bin/(\S+)", text):
                _check_program(site, program)
            if site.at(f"/usr/lib/systemd/system/{name}").exists():
                plan.kept.append(f"{name}: Roost's package has it")
                continue
            plan.files[units / name] = text.replace(
                "ExecStart=/usr/bin/", f"ExecStart={site.prefix}/bin/"
            )
        if role == "node":
            _unless_there(site, plan, Path("/etc/default/roost-probe"), _PROBE_DEFAULTS)
            if not site.at("/usr/lib/tmpfiles.d/roost-node.conf").exists():
                plan.files[Path("/etc/tmpfiles.d/roost-node.conf")] = _JOB_MAP
                plan.to_do.append("systemd-tmpfiles --create roost-node.conf")
        else:
            _unless_there(site, plan, Path("/etc/roost/roostd.yaml"), _DAEMON_CONFIG)
    return plan


def plan_slurm(site: Site, generated: Path) -> Plan:
    """Plan what Slurm reads, from the folder that `roost-slurm config` made.

    Raises:
        InstallError: a file of the folder or slurm.conf is missing, or was fetched (configless).
        LuaMergeError: the site's job_submit.lua cannot be joined with Roost's.
    """
    plan = Plan()
    if why := fetched_copy(site.at(site.slurm_folder)):
        raise InstallError(why)
    texts = {name: _read(generated / name) for name in ("roost.conf", "job_submit.lua")}
    scripts = sorted((generated / "hooks").glob("*.sh"))
    if not scripts:
        raise InstallError(f"{generated}/hooks: no scripts; cure: roost-slurm config --out")
    for script in scripts:
        plan.files[site.hooks_folder / script.name] = _read(script)
    conf = site.slurm_folder / "slurm.conf"
    try:
        own = install_conf.settings(site.at(conf))
    except OSError as error:
        raise InstallError(f"{conf}: {error.strerror}; cure: --slurm-folder") from error
    adapted = install_conf.adapt(texts["roost.conf"], own, site.hooks_folder)
    for name, text in adapted.wrappers.items():
        wrapper = site.hooks_folder / name
        plan.files[wrapper] = text or _read(site.at(wrapper))
    plan.files[site.slurm_folder / "roost.conf"] = adapted.text
    plan.to_do += adapted.to_do
    _plan_script(site, plan, texts["job_submit.lua"])
    if not re.search(r"(?mi)^\s*include\s+(\S*/)?roost\.conf\s*(#|$)", read_conf(site.at(conf))):
        plan.to_do.append(f"{conf}: add the line `Include roost.conf` at its end")
    return plan


def _plan_script(site: Site, plan: Plan, generated: str) -> None:
    path = site.slurm_folder / "job_submit.lua"
    there = site.at(path)
    if not there.exists() or install_lua.is_roosts_own(own := _read(there)):
        plan.files[path] = generated
        return
    module = site.slurm_folder / install_lua.MODULE_NAME
    plan.files[module] = install_lua.as_module(generated)
    plan.files[path] = install_lua.merged(own, module)
    plan.merged.append(path)


def write(site: Site, plan: Plan, *, force: bool = False) -> list[Path]:
    """Write a plan and return the files that changed.

    Raises:
        InstallError: a file is there that neither Roost nor this command wrote, and `force` is not
            set: then nothing is written; or a file cannot be written.
    """
    manifest = read_manifest(site)
    changed = [path for path, text in plan.files.items() if _text(site.at(path)) != text]
    foreign = [
        str(path)
        for path in changed
        if site.at(path).exists()
        and path not in plan.merged
        and _digest(site.at(path)) != manifest.get(str(path))
        and not _is_generated(site.at(path))
    ]
    if foreign and not force:
        raise InstallError(
            f"{', '.join(foreign)}: there, and not written by Roost;"
            " cure: look at --plan, then repeat with --force"
        )
    for path in changed:
        _put(site.at(path), plan.files[path])
    entries = dict(manifest) | {
        str(path): "merged" if path in plan.merged else _digest(site.at(path))
        for path in plan.files
    }
    _put(site.root / MANIFEST, json.dumps({"version": 1, "files": entries}, indent=2) + "\n")
    return changed


def uninstall(site: Site) -> Plan:
    """Remove what was installed and return it in `files`; `kept` says what stays and why.

    Raises:
        InstallError: nothing was installed, or slurm.conf still needs a file.
    """
    manifest = read_manifest(site)
    if not manifest:
        raise InstallError(
            f"/{MANIFEST}: not there; `roost-slurm install` has written nothing here"
        )
    _check_unused(site, manifest)
    removed = Plan()
    for name, digest in manifest.items():
        path = site.at(name)
        if digest == "merged":
            _put(path, install_lua.without(_read(path)))
            removed.merged.append(Path(name))
        elif not path.exists():
            continue
        elif _digest(path) != digest:
            removed.kept.append(f"{name}: changed since it was installed")
        else:
            path.unlink()
            removed.files[Path(name)] = ""
    (site.root / MANIFEST).unlink()
    return removed


def read_manifest(site: Site) -> Mapping[str, str]:
    """Return the digest of each installed file by its path; empty where nothing was installed."""
    try:
        document = json.loads((site.root / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    files = document.get("files") if isinstance(document, dict) else None
    return {str(k): str(v) for k, v in files.items()} if isinstance(files, dict) else {}


def _check_unused(site: Site, manifest: Mapping[str, str]) -> None:
    """Raise while slurm.conf needs a file: slurmctld does not start without an included one."""
    conf = site.slurm_folder / "slurm.conf"
    for number, line in enumerate((_text(site.at(conf)) or "").splitlines(), start=1):
        used = [name for name in manifest if name in line]
        if re.match(r"(?i)\s*include\s+(\S*/)?roost\.conf\s*(#|$)", line):
            used.append("roost.conf")
        if used and not line.lstrip().startswith("#"):
            raise InstallError(
                f"{conf}:{number}: still names {used[0]}; cure: take it out,"
                " `scontrol reconfigure`, and repeat"
            )


def _check_program(site: Site, program: str) -> None:
    if not os.access(site.prefix / "bin" / program, os.X_OK):
        extra = {"roostd": "[daemon,cli]", "roost-probe": "[probe]"}.get(program, "")
        raise InstallError(
            f"{site.prefix}/bin/{program}: not there; cure: {site.prefix}/bin/pip install"
            f" 'roost{extra}', or --role"
        )


def _unless_there(site: Site, plan: Plan, path: Path, text: str) -> None:
    if site.at(path).exists():
        plan.kept.append(f"{path}: is there")
    else:
        plan.files[path] = text


def _is_generated(path: Path) -> bool:
    text = _text(path) or ""
    return install_lua.is_roosts_own(text) or "Roost" in text[:200]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _text(path: Path) -> str | None:
    return _read(path) if path.exists() else None


def _read(path: Path) -> str:
    try:
        return read_conf(path)
    except OSError as error:
        raise InstallError(f"{path}: cannot be read: {error.strerror}") from error


def _put(path: Path, text: str) -> None:
    try:
        path = written_at(path)
        temporary = path.with_name(f".{path.name}.new")
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(text.encode("utf-8", "surrogateescape"))
        temporary.chmod(0o755 if path.suffix == ".sh" else mode)
        os.replace(temporary, path)
    except OSError as error:
        raise InstallError(f"{path}: cannot be written: {error.strerror}") from error
