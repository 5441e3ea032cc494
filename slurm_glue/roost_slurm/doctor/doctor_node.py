"""What the doctor looks at on a node, and on every machine: MUNGE, the clock, GPUs, the agent."""

import calendar
import re
import time
from collections.abc import Iterator

from roost_slurm.doctor.doctor import Check, Finding, Level, Looked
from roost_slurm.doctor.doctor_slurm import certificates, node_hooks
from roost_slurm.hooks.hook_agent import Agent, AgentError
from roost_slurm.hooks.hooks import agent_socket
from roost_slurm.text import commands
from roost_slurm.text.tres import TresError, parse_gres

_SKEW_S = 5.0
_AGENT_TIMEOUT_S = 2.0
_AS_OF = re.compile(r"Configuration data as of (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")


def munge(looked: Looked) -> Iterator[Finding]:
    """Check that MUNGE encodes and decodes a credential here."""
    made = looked.machine.run(("munge", "--no-input"))
    if made.code == 0:
        made = looked.machine.run(("unmunge", "--no-output"), made.out)
    if made.code:
        yield Finding("munge", Level.PROBLEM, made.complaint, "systemctl restart munge")
    else:
        yield Finding("munge", Level.FINE, "makes and reads credentials")


def clock(looked: Looked) -> Iterator[Finding]:
    """Compare the clock of slurmctld with this one: a heartbeat older than 15 s counts as none."""
    match = _AS_OF.search(looked.config_text)
    if match is None:
        return
    theirs_s = calendar.timegm(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S"))  # it was asked in UTC
    skew_s = looked.machine.now_s - theirs_s
    if abs(skew_s) > _SKEW_S:
        text = f"this clock is {skew_s:+.0f} s beside slurmctld's"
        yield Finding("clock", Level.PROBLEM, text, "systemctl enable --now chrony, on both")
    else:
        yield Finding("clock", Level.FINE, "agrees with slurmctld's")


def gres(looked: Looked) -> Iterator[Finding]:
    """Compare the GPUs that Slurm knows of this node with its device files."""
    shown = looked.machine.run(commands.show_nodes())
    match = None if shown.code else _own_gres(shown.out, looked.machine.host)
    if match is None:
        why = f": {shown.complaint}" if shown.code else ""
        text = f"Slurm does not know a node on host {looked.machine.host}{why}"
        yield Finding("gres", Level.PROBLEM, text, "name it as NodeName in slurm.conf")
        return
    devices = [path.name for path in looked.at("/dev").glob("nvidia[0-9]*")]
    try:
        entries = parse_gres(re.sub(r"\(S:[^)]*\)", "", match[1]))
    except TresError as error:
        yield Finding("gres", Level.PROBLEM, f"Gres={match[1]}: {error}", "see gres.conf")
        return
    kinds = [entry.kind or "" for entry in entries if entry.name == "gpu"]
    count = sum(
        entry.count
        for entry in entries
        if entry.name == "gpu" and not re.fullmatch(r"s\d+", entry.kind or "")
    )
    if count != len(devices):
        text = f"Slurm knows {count} GPUs, /dev has {len(devices)}"
        cure = "roost-slurm config --check with this node's topology; is the driver loaded?"
        yield Finding("gres", Level.PROBLEM, text, cure)
    elif kinds and not any(re.fullmatch(r"g\d+", kind) for kind in kinds):
        text = f"{count} GPUs, not typed by index yet: Roost cannot pin jobs here"
        yield Finding("gres", looked.later(), text, "roost-slurm migrate --plan")
    else:
        yield Finding("gres", Level.FINE, f"{count} GPUs, as in /dev")


def _own_gres(shown: str, host: str) -> re.Match[str] | None:
    """Find this host's node: its name may be another one than the host's."""
    for line in shown.splitlines():
        name = re.search(r"\bNodeHostName=(\S+)", line) or re.search(r"\bNodeName=(\S+)", line)
        if name is not None and name[1].partition(".")[0] == host:
            return re.search(r"\bGres=(\S*)", line)
    return None


def agent(looked: Looked) -> Iterator[Finding]:
    """Check the probe's unit and the socket where hooks ask."""
    active = looked.machine.run(("systemctl", "is-active", "roost-probe.service")).out.strip()
    if active != "active":
        cure = "set ROOST_DAEMON in /etc/default/roost-probe; systemctl enable --now roost-probe"
        text = f"roost-probe.service is {active or 'unknown'}"
        yield Finding("probe", Level.PROBLEM, text, cure)
        return
    socket_path = looked.at(agent_socket(looked.runtime_folder))
    try:
        Agent(socket_path, _AGENT_TIMEOUT_S).plan(1)
    except AgentError as error:
        cure = "journalctl -u roost-probe: can it reach ROOST_DAEMON?"
        yield Finding("probe", Level.PROBLEM, f"{socket_path}: {error}", cure)
    else:
        yield Finding("probe", Level.FINE, "runs and answers for roostd")


EVERYWHERE: tuple[Check, ...] = (munge, clock)
NODE: tuple[Check, ...] = (gres, agent, node_hooks, certificates)
