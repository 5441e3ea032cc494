"""The files that a site gives to Slurm, made from what the probes report.

gres.conf          replaces the site's
roost.conf         `Include roost.conf` at the end of slurm.conf
nodes.conf         Gres= and Feature= to add to the site's NodeName lines
job_submit.lua     beside slurm.conf on the controller
cli_filter.lua     beside slurm.conf on every machine
hooks/*.sh         what roost.conf names, on the controller and on the nodes
roost-seats.conf   with second seats: for /etc/tmpfiles.d on the nodes
"""

import difflib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roost_slurm.hooks import heartbeat
from roost_slurm.shipped import read_shipped
from roost_slurm.site import gpu_models, gres, submit_script
from roost_slurm.site.inventory import NodeGpus
from roost_slurm.text.tres import SEAT_TOKEN

# Slurm's name of each hook, and the name of the script that roost.conf gives it.
HOOK_KEYS = {
    "Prolog": "prolog",
    "Epilog": "epilog",
    "TaskProlog": "task-prolog",
    "PrologSlurmctld": "prolog-slurmctld",
    "EpilogSlurmctld": "epilog-slurmctld",
}
# Names that mean something else to Slurm.
_NO_TOKENS = frozenset({"gpu", "mps", "shard", "nic", "none", SEAT_TOKEN})


class ConfigError(ValueError):
    """The files cannot be made or written; says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """The site's settings, which no probe reports."""

    runtime_folder: Path = Path("/run/roost")
    hooks_folder: Path = Path("/etc/slurm/hooks")
    roost_slurm: Path = field(default_factory=lambda: Path(sys.prefix) / "bin" / "roost-slurm")
    device_prefix: str = "/dev/nvidia"
    seats: bool = False
    mps: bool = False  # MPS for jobs that opted in to share
    counts_models: bool = False  # a count-only gres for each model, for limits and billing
    model_names: Mapping[str, str] = field(default_factory=dict)  # driver's name -> short name


def generate(nodes: Sequence[NodeGpus], settings: SiteSettings) -> dict[str, str]:
    """Return the files by name.

    Raises:
        ConfigError: a model has no usable short name, or one that cannot be counted; MPS is asked
            for without seats.
        SubmitScriptError: a path cannot stand in job_submit.lua.
    """
    if settings.mps and not settings.seats:
        raise ConfigError("--mps serves jobs that share GPUs; cure: --seats too")
    features = {node.node: _models_of(node, settings) for node in nodes}
    models = sorted({model for names in features.values() for model in names})
    script = submit_script.render(
        settings.runtime_folder / "heartbeat",
        settings.runtime_folder / "spool" / "events",
        models,
        only_model=models[0] if len(models) == 1 and not mixed_nodes(nodes) else "",
        counts_models=settings.counts_models,
        seats=settings.seats,
    )
    counted = _counted(features) if settings.counts_models else {}
    files = {
        "gres.conf": gres.gres_conf(
            nodes, device_prefix=settings.device_prefix, seats=settings.seats, counted=counted
        ),
        "roost.conf": _roost_conf(settings, sorted(set(counted.values()))),
        "nodes.conf": _nodes_conf(nodes, features, settings, counted),
        "job_submit.lua": script,
        "cli_filter.lua": submit_script.render_cli_filter(models),
    }
    files |= {f"hooks/{name}.sh": _hook_script(name, settings) for name in HOOK_KEYS.values()}
    if settings.seats:
        files["roost-seats.conf"] = gres.seat_devices(nodes)
    return files


def mixed_nodes(nodes: Sequence[NodeGpus]) -> tuple[str, ...]:
    """Return the nodes with several GPU models: no request by model is ever placed on them."""
    return tuple(node.node for node in nodes if len({gpu.model for gpu in node.gpus}) > 1)


def differences(files: Mapping[str, str], folder: Path) -> str:
    """Return a unified diff from the folder to the files; empty when they agree."""
    diff: list[str] = []
    for name, wanted in files.items():
        old = _read(folder / name)
        if old != wanted:
            before = [] if old is None else old.splitlines(keepends=True)
            after = wanted.splitlines(keepends=True)
            diff += difflib.unified_diff(before, after, str(folder / name), f"generated/{name}")
    return "".join(diff)


def write(files: Mapping[str, str], folder: Path, *, force: bool = False) -> tuple[str, ...]:
    """Write the files that differ and return their names.

    Raises:
        ConfigError: a file is there with another content and `force` is not set, or a file cannot
            be written. Without `force` nothing is written then.
    """
    found = {name: _read(folder / name) for name in files}
    changed = tuple(name for name, text in files.items() if found[name] != text)
    existing = [str(folder / name) for name in changed if found[name] is not None]
    if existing and not force:
        raise ConfigError(
            f"{', '.join(existing)} would change; cure: look at --check, then repeat with --force"
        )
    for name in changed:
        _replace(folder / name, files[name], executable=name.endswith(".sh"))
    return changed


def _models_of(node: NodeGpus, settings: SiteSettings) -> tuple[str, ...]:
    """Return the node's feature; a mixed node has none, as a request could get the other model."""
    if len({gpu.model for gpu in node.gpus}) != 1:
        return ()
    model = node.gpus[0].model
    try:
        name = settings.model_names.get(model) or gpu_models.short_name(model)
    except ValueError as error:
        raise ConfigError(f"node {node.node}: {error}; cure: --model '{model}=NAME'") from error
    if not heartbeat.is_name(name) or name != name.lower():
        raise ConfigError(
            f"node {node.node}: model {model!r} as {name!r}: want lower-case letters, digits, _ . -"
        )
    return (name,)


def _counted(features: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the model of each node whose GPUs are counted by it: a mixed node has none."""
    for node, models in features.items():
        for model in _NO_TOKENS.intersection(models):
            raise ConfigError(
                f"node {node}: model {model} cannot be counted: Slurm knows a gres of that name;"
                f" cure: --model 'DRIVER NAME=NAME'"
            )
    return {node: models[0] for node, models in features.items() if models}


def _roost_conf(settings: SiteSettings, counted: Sequence[str]) -> str:
    gres_types = ["gpu", *([SEAT_TOKEN] if settings.seats else []), *counted]
    tres = ",".join(f"gres/{model}" for model in counted)
    lines = [
        "# For the end of slurm.conf: `Include roost.conf`. A key that slurm.conf has already",
        "# counts twice for Slurm: keep one line, with the values of both.",
        f"GresTypes={','.join(gres_types)}",
        "JobSubmitPlugins=lua",
        "PrologFlags=Alloc",
        "PrologEpilogTimeout=30",
        *(f"{key}={settings.hooks_folder}/{name}.sh" for key, name in HOOK_KEYS.items()),
        "# Add these words to yours; `roost-slurm check` says why.",
        "# SchedulerParameters=batch_sched_delay=0,sched_interval=5,bf_interval=5,"
        "disable_job_shrink,bf_job_part_count_reserve=1",
        "# PriorityFlags=ACCRUE_ALWAYS",
        "# Only when cli_filter.lua is beside slurm.conf on every machine: without the file each",
        "# sbatch, salloc and srun fails. For `srun --gpus=MODEL:2`.",
        "# CliFilterPlugins=cli_filter/lua",
        *([f"# For limits and billing by model: AccountingStorageTRES={tres}"] if tres else []),
    ]
    return "\n".join(lines) + "\n"


def _nodes_conf(
    nodes: Sequence[NodeGpus],
    features: Mapping[str, tuple[str, ...]],
    settings: SiteSettings,
    counted: Mapping[str, str],
) -> str:
    lines = ["# Add these words to the NodeName lines of slurm.conf; Slurm merges no second line."]
    groups = gres.group(
        nodes,
        lambda node: (
            gres.node_gres(node, seats=settings.seats, counted=counted),
            features[node.node],
        ),
    )
    for (words, models), names in groups:
        line = f"NodeName={names} Gres={words}"
        lines.append(line + (f" Feature={','.join(models)}" if models else ""))
    return "\n".join(lines) + "\n"


def _hook_script(name: str, settings: SiteSettings) -> str:
    text = read_shipped("hooks/spool.sh" if name.endswith("-slurmctld") else "hooks/hook.sh")
    for variable, path in (
        ("ROOST_SLURM", settings.roost_slurm),
        ("RUNTIME_FOLDER", settings.runtime_folder),
    ):
        if not submit_script.SAFE_PATH.fullmatch(str(path)):
            raise ConfigError(f"{path}: want an absolute path of plain characters")
        text = re.sub(rf"(?m)^{variable}=.*$", f"{variable}={path}", text)
    return re.sub(r"(?m)^OPTIONS=$", "OPTIONS=--mps", text) if settings.mps else text


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: not UTF-8 text") from error


def _replace(path: Path, text: str, *, executable: bool) -> None:
    # slurmctld reads job_submit.lua again as soon as it changes: it must never read half a file.
    temporary = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(0o755 if executable else 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from error
