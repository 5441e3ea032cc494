"""What a right configuration asks for and will not get: files, groups, modes, as of now.

A problem keeps roostd from starting, or a model or certificate from being used; a note is what an
operator may not expect. Reads files, and changes nothing.
"""

import difflib
import grp
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from roost_engine.domain.errors import ConfigError
from roost_formats.yaml.tree import KeyPath
from roostd.config.config import Config, Mode
from roostd.config.loaded_config import (
    ENVIRONMENT_PREFIX,
    LoadedConfig,
    environment_name,
    leaves,
)
from roostd.config.plain_file import NO_FILE, is_no_file
from roostd.config.reader import Reader
from roostd.config.revoked_list import REVOKED, read_revoked

_NEARLY = 0.85  # of difflib: one or two letters of a variable's name


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that will not do what the configuration says.

    Attributes:
        text: where it stands, what is wrong, and the cure.
        is_problem: roostd does not start, or does without it.
    """

    text: str
    is_problem: bool


def unmet(
    loaded: LoadedConfig,
    file: Path | None,
    reader: Reader | None,
    environ: Mapping[str, str] = os.environ,
) -> Iterator[Finding]:
    """Yield what will not do what the configuration says.

    Args:
        loaded: the configuration.
        file: where it stands; None: nowhere.
        reader: the user that roostd will run as; None: the present one.
        environ: variables of the environment.
    """
    if file is not None and reader is not None and (fault := reader.fault(file)):
        yield Finding(fault, is_problem=True)
    yield from _variables(environ)
    yield from _modes(loaded)
    for path, value in _files(loaded):
        fault = _fault(value, reader)
        if fault is not None:
            yield Finding(_at(loaded, path, fault), is_problem=True)
    yield from _certificates(loaded, reader)
    yield from _revoked(loaded, reader)
    yield from _groups(loaded)
    yield from _programs(loaded)


def _variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the variables whose names are nearly those of settings: nothing reads them."""
    known = [environment_name(path) for path, _ in leaves(Config())]
    for name in environ:
        if not name.startswith(ENVIRONMENT_PREFIX) or name in known:
            continue
        if near := difflib.get_close_matches(name, known, n=1, cutoff=_NEARLY):
            text = f"{name}: no setting has this variable, did you mean {near[0]}?"
            yield Finding(text, is_problem=False)


def _modes(loaded: LoadedConfig) -> Iterator[Finding]:
    config = loaded.config
    for name, partition in config.partitions.items():
        falls_back = "mode" not in partition.model_fields_set and partition.mode is not config.mode
        if falls_back:
            text = (
                f"the partition is in mode {partition.mode}, not {config.mode} as `mode` says,"
                f" since it is listed without a mode; cure: partitions.{name}.mode: {config.mode}"
            )
            yield Finding(_at(loaded, ("partitions", name), text), is_problem=False)
        if partition.preemption and partition.mode is not Mode.ENFORCE:
            text = f"no job is stopped in mode {partition.mode}; cure: mode: enforce, or remove it"
            path = ("partitions", name, "preemption")
            yield Finding(_at(loaded, path, text), is_problem=False)


def _files(loaded: LoadedConfig) -> Iterator[tuple[KeyPath, Path]]:
    """Yield every file that the configuration names, with its key."""
    config = loaded.config
    model = config.policy.model
    if model is not None and Path(model).is_absolute():
        yield ("policy", "model"), Path(model)
    if Path(config.order.run_time_model).is_absolute():
        yield ("order", "run_time_model"), Path(config.order.run_time_model)
    if config.slurm.conf is not None:
        yield ("slurm", "conf"), config.slurm.conf
    if config.gate.speeds is not None:
        yield ("gate", "speeds"), config.gate.speeds
    if config.sharing.pairs is not None:
        yield ("sharing", "pairs"), config.sharing.pairs
    if (tls := config.listen.probes_tls) is not None:
        for key in ("certificate", "key", "client_ca", "revoked"):
            if (path := getattr(tls, key)) is not None:
                yield ("listen", "probes_tls", key), path


def _certificates(loaded: LoadedConfig, reader: Reader | None) -> Iterator[Finding]:
    tls = loaded.config.listen.probes_tls
    if tls is None or any(_fault(p, reader) for p in (tls.certificate, tls.key, tls.client_ca)):
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    section = ("listen", "probes_tls")
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except (ssl.SSLError, OSError) as error:
        text = f"{tls.certificate} and {tls.key} cannot be used together: {error}"
        yield Finding(_at(loaded, (*section, "certificate"), text), is_problem=True)
    try:
        context.load_verify_locations(tls.client_ca)
    except (ssl.SSLError, OSError) as error:
        text = f"{tls.client_ca}: no certificates in PEM: {error}"
        yield Finding(_at(loaded, (*section, "client_ca"), text), is_problem=True)


def _revoked(loaded: LoadedConfig, reader: Reader | None) -> Iterator[Finding]:
    tls = loaded.config.listen.probes_tls
    if tls is None or tls.revoked is None or _fault(tls.revoked, reader):
        return
    try:
        read_revoked(tls.revoked)
    except ConfigError as error:
        for problem in error.problems:
            text = problem.removeprefix(f"{'.'.join(REVOKED)}: ")
            yield Finding(_at(loaded, REVOKED, text), is_problem=True)


def _groups(loaded: LoadedConfig) -> Iterator[Finding]:
    for key in ("operator_group", "admin_group"):
        name = getattr(loaded.config.listen, key)
        if name is None:
            continue
        try:
            grp.getgrnam(name)
        except KeyError:
            text = f"no group {name} on this machine; cure: groupadd --system {name}"
            yield Finding(_at(loaded, ("listen", key), text), is_problem=True)


def _programs(loaded: LoadedConfig) -> Iterator[Finding]:
    folder = loaded.config.slurm.bin_dir
    missing = [name for name in ("scontrol", "squeue") if not os.access(folder / name, os.X_OK)]
    if missing:
        text = f"no {' and no '.join(missing)} in {folder}; cure: set slurm.bin_dir"
        yield Finding(_at(loaded, ("slurm", "bin_dir"), text), is_problem=False)


def _fault(path: Path, reader: Reader | None) -> str | None:
    if reader is not None:
        return reader.fault(path)
    try:
        if is_no_file(path):
            return f"{path}: {NO_FILE}"
        path.open("rb").close()
    except OSError as error:
        return f"{path}: {error.strerror}"
    return None


def _at(loaded: LoadedConfig, path: KeyPath, text: str) -> str:
    return f"{loaded.sources.get(path, 'default')}: {'.'.join(path)}: {text}"
