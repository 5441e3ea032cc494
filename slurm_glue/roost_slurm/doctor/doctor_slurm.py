"""What the doctor looks at on a controller: slurm.conf, limits, roostd and its units."""

import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from roost_slurm.doctor.doctor import Check, Finding, Level, Looked, Machine
from roost_slurm.hooks import heartbeat
from roost_slurm.site import site_check
from roost_slurm.site.config import HOOK_KEYS
from roost_slurm.text import commands
from roost_slurm.text.scontrol import parse_jobs, parse_nodes
from roost_slurm.text.squeue import parse_queue
from roost_slurm.text.stranded import Held, held_by_jobs, stranded
from roost_slurm.text.versions import UnknownVersion, parse_version, untried

_TYPED = re.compile(r"gres/gpu:([A-Za-z][\w.-]*)")
_INDEX = re.compile(r"[gs]\d+")
_SOON_S = 30 * 86_400


def settings(looked: Looked) -> Iterator[Finding]:
    """Keys of slurm.conf, as `roost-slurm check` reads them."""
    if not looked.config:
        return
    found = site_check.check(looked.config_text)
    for finding in found:
        is_needed = finding.level is site_check.Level.NEEDED
        level = looked.later() if is_needed else Level.ADVICE
        yield Finding("slurm.conf", level, finding.problem, finding.cure)
    if not found:
        yield Finding("slurm.conf", Level.FINE, "has every key that Roost needs")


def release(looked: Looked) -> Iterator[Finding]:
    """Slurm's release, where it is older or newer than all that Roost was tried on."""
    try:
        found = untried(parse_version(f"slurm {looked.config.get('SLURM_VERSION', '')}"))
    except UnknownVersion:
        return
    if found:
        cure = "keep to shadow mode; enforce one small partition first, and watch `roostctl report`"
        yield Finding("release", Level.ADVICE, found, cure)


def preemption(looked: Looked) -> Iterator[Finding]:
    """Slurm's own preemption, beside Roost's."""
    kind = looked.config.get("PreemptType", "preempt/none")
    if kind == "preempt/none":
        return
    version = looked.config.get("SLURM_VERSION", "")
    text = f"PreemptType={kind}"
    if version.startswith("22."):
        text += ": on 22.05 a job for which Slurm preempts is released to Slurm at once"
        yield Finding("preemption", Level.ADVICE, text, "docs/slurm.md, Slurm's own rules")
    else:
        yield Finding("preemption", Level.FINE, f"{text}, which Roost follows")


def typed_limits(looked: Looked) -> Iterator[Finding]:
    """Limits and billing on gres/gpu:MODEL, which count nothing once a type is an index."""
    tracked = looked.config.get("AccountingStorageTRES", "")
    limits = looked.machine.run(commands.show_assoc_mgr()).out if looked.config else ""
    found = sorted(
        {
            model
            for text in (tracked, looked.config.get("PriorityWeightTRES", ""), limits)
            for model in _TYPED.findall(text)
            if not _INDEX.fullmatch(model)
        }
    )
    for model in found:
        yield Finding(
            "limits",
            Level.ADVICE,
            f"gres/gpu:{model} is counted or limited, and counts nothing once types are indices",
            f"roost-slurm config --count-models, and gres/{model} in its place",
        )


def daemon(looked: Looked) -> Iterator[Finding]:
    """Check that roostd is there, runs and beats."""
    active = looked.machine.run(("systemctl", "is-active", "roostd.service")).out.strip()
    if active != "active":
        cure = "roostd check-config; systemctl enable --now roostd; journalctl -u roostd"
        yield Finding("roostd", Level.PROBLEM, f"roostd.service is {active or 'unknown'}", cure)
        return
    path = looked.at(looked.runtime_folder / "heartbeat")
    try:
        beat = heartbeat.parse(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        cure = "journalctl -u roostd: it beats only while slurmctld answers"
        yield Finding("roostd", Level.PROBLEM, f"no heartbeat: {error}", cure)
        return
    age_s = looked.machine.now_s - beat.at_epoch_s
    if abs(age_s) > heartbeat.FRESH_S:
        cure = "roostctl status; journalctl -u roostd"
        yield Finding("roostd", Level.PROBLEM, f"its heartbeat is {age_s:.0f} s old", cure)
    else:
        mode = f"enforces {','.join(beat.enforce)}" if beat.enforce else "enforces no partition"
        yield Finding("roostd", Level.FINE, f"runs and {mode}")


def stranded_gpus(looked: Looked) -> Iterator[Finding]:
    """Look for GPUs that slurmctld counts as used and that no job has; see gres_used.

    A GPU counts once two readings, one right after the other, show it so.
    """
    first = _stranded(looked.machine)
    again = _stranded(looked.machine) if first else {}
    for name in sorted(first.keys() & again.keys()):
        count = len(first[name] & again[name])
        if count:
            text = f"slurmctld counts GPUs of node {name} as used ({count}), and no job has them"
            yield Finding(
                "gpus", Level.PROBLEM, text, "scontrol reconfigure; docs/faults.md, Slurm"
            )


def _stranded(machine: Machine) -> Mapping[str, frozenset[int]]:
    shown = parse_nodes(machine.run(commands.show_nodes()).out)
    used = [node for node in shown if node.used_gpus]
    if not used:
        return {}
    answers = machine.run(commands.queue()), machine.run(commands.show_jobs())
    if any(answer.code for answer in answers):
        return {}
    dump, details = parse_queue(answers[0].out), parse_jobs(answers[1].out)
    held = held_by_jobs(dump.jobs, details)
    found = {
        node.name: stranded(
            node.used_gpus, node.cpu_allocated_count, node.state, held.get(node.name, Held())
        )
        for node in used
    }
    return {name: gpus for name, gpus in found.items() if gpus}


def service_user(looked: Looked) -> Iterator[Finding]:
    """Check that the services run as SlurmUser, and that roostd sees its configuration."""
    user = looked.config.get("SlurmUser", "").partition("(")[0]
    for unit in ("roostd", "roost-unpin"):
        shown = looked.machine.run(
            ("systemctl", "show", "--value", "--property=User", f"{unit}.service")
        )
        unit_user = shown.out.strip()
        if user and unit_user and unit_user not in (user, "root"):
            cure = f"systemctl edit {unit}, and write [Service], User={user}, Group={user}"
            text = f"{unit}.service runs as {unit_user}, SlurmUser is {user}: Slurm refuses updates"
            yield Finding("user", Level.PROBLEM, text, cure)
    checked = looked.machine.run(("roostd", "check-config"))
    if checked.code:
        text = checked.complaint
        yield Finding("roostd.yaml", Level.PROBLEM, text, "roostd check-config names each problem")
    elif checked.err.strip():
        yield Finding("roostd.yaml", Level.ADVICE, checked.complaint, "roostd check-config")
    else:
        yield Finding("roostd.yaml", Level.FINE, "is right")


def unpin_timer(looked: Looked) -> Iterator[Finding]:
    """Check the timer that takes back the pins of a dead roostd."""
    active = looked.machine.run(("systemctl", "is-active", "roost-unpin.timer")).out.strip()
    if active != "active":
        yield Finding(
            "unpin",
            looked.later(),
            "roost-unpin.timer does not run: pins of a dead roostd would stay",
            "systemctl enable --now roost-unpin.timer",
        )


def controller_hooks(looked: Looked) -> Iterator[Finding]:
    """Check the scripts that slurmctld runs, and that slurm.conf names hooks at all."""
    yield from _hooks(looked, is_slurmctlds=True)
    if looked.config and not any(_roosts_hooks(looked)):
        text = "slurm.conf names none of Roost's hooks"
        yield Finding("hooks", looked.later(), text, "roost-slurm install --files; docs/install.md")


def node_hooks(looked: Looked) -> Iterator[Finding]:
    """Check the scripts that slurmd runs: a node has no use for those of slurmctld."""
    yield from _hooks(looked, is_slurmctlds=False)


def _hooks(looked: Looked, *, is_slurmctlds: bool) -> Iterator[Finding]:
    for key, path in _roosts_hooks(looked):
        if key.endswith("Slurmctld") == is_slurmctlds:
            source = "roost-slurm install --files" if is_slurmctlds else "copy the controller's"
            yield from _hook(looked, key, path, source)


def _roosts_hooks(looked: Looked) -> Iterator[tuple[str, Path]]:
    for name, value in looked.config.items():
        key = name.partition("[")[0]
        if key in HOOK_KEYS and str(looked.hooks_folder) in value:
            yield key, Path(value.strip())


def _hook(looked: Looked, key: str, path: Path, source: str) -> Iterator[Finding]:
    there = looked.at(path)
    try:
        mode = there.stat().st_mode
        text = there.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        cure = f"{source}, or take {key} out of slurm.conf"
        yield Finding("hooks", Level.PROBLEM, f"{key}: {path}: {error.strerror}", cure)
        return
    if not mode & stat.S_IXOTH or not mode & stat.S_IROTH:
        text = f"{key}: {path} is not executable for all: Slurm fails jobs and drains nodes"
        yield Finding("hooks", Level.PROBLEM, text, f"chmod 755 {path}")
        return
    for folder in path.parents[:-1]:
        if not looked.at(folder).stat().st_mode & stat.S_IXOTH:
            text = f"{key}: {folder} is closed to users"
            yield Finding("hooks", Level.PROBLEM, text, f"chmod o+rx {folder}")
    program = re.search(r"(?m)^ROOST_SLURM=(\S+)$", text)
    if program and not looked.at(program[1]).exists():
        text = f"{key}: {path} calls {program[1]}, which is not on this machine"
        cure = "install Roost there, or make the hooks again with `roost-slurm config` here"
        yield Finding("hooks", Level.PROBLEM, text, cure)
    else:
        yield Finding("hooks", Level.FINE, f"{key}: {path}")


def certificates(looked: Looked) -> Iterator[Finding]:
    """Check when the certificates of roostd and the probe end."""
    for folder in ("/etc/roost", "/etc/roost/tls"):
        for path in sorted(looked.at(folder).glob("*.pem")):
            shown = looked.machine.run(
                ("openssl", "x509", "-noout", "-checkend", str(_SOON_S), "-in", str(path))
            )
            if shown.code == 0:
                yield Finding("tls", Level.FINE, f"{path} is good for 30 days and more")
            else:
                cure = "docs/operations.md, Certificates for probes"
                text = f"{path} ends within 30 days, or is no certificate"
                yield Finding("tls", Level.PROBLEM, text, cure)


CONTROLLER: tuple[Check, ...] = (
    settings,
    release,
    preemption,
    typed_limits,
    stranded_gpus,
    service_user,
    daemon,
    controller_hooks,
    unpin_timer,
    certificates,
)
