"""Which nodes can get GPU types by index now, which later, and why. Pure: no I/O.

A change of a node's types while jobs run there ends them (`gres/gpu type a100 not found`), and
a waiting job that names a type which no node has any more never starts. So a node is changed only
while it is drained and empty, and the last nodes with a type only when no waiting job names it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from roost_slurm.text.hostlist import HostlistError, expand
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.tres import GPU, TresError, parse_gres

_INDEX = re.compile(r"[gs]\d+")


class Stage(StrEnum):
    """How far a node is."""

    DONE = "done"
    READY = "ready"  # drained, without jobs: can be changed now
    EMPTY = "empty"  # without jobs: drain it, then it is ready
    BUSY = "busy"  # jobs run there
    HELD = "held"  # waiting jobs need its present types


@dataclass(frozen=True, slots=True)
class NodeState:
    """One node as Slurm shows it.

    Attributes:
        gres: as slurmctld has it.
        state: lower case, "idle+drain".
    """

    name: str
    gres: str
    state: str


@dataclass(frozen=True, slots=True)
class Step:
    """One node of the plan.

    Attributes:
        jobs: those that run there, or wait for its types.
        wanted: the node's Gres= afterwards.
    """

    node: str
    stage: Stage
    jobs: tuple[str, ...]
    wanted: str

    def __str__(self) -> str:
        jobs = ", ".join(self.jobs)
        state = {
            Stage.DONE: "has the new types",
            Stage.READY: "drained and empty: change it now",
            Stage.EMPTY: f"empty: scontrol update nodename={self.node} state=drain reason=roost",
            Stage.BUSY: f"runs {jobs}: drain it and wait, or leave it for later",
            Stage.HELD: f"waiting jobs name its types: {jobs}",
        }[self.stage]
        return f"{self.node:<16} {self.stage:<6} {state}"


def parse_nodes(text: str) -> list[NodeState]:
    """Read `scontrol -o show nodes`; nodes that have no GPUs or are not there yet are left out."""
    found = []
    for line in text.splitlines():
        row = dict(re.findall(r"(?:^|\s)(NodeName|Gres|State)=(\S*)", line))
        if "FUTURE" in row.get("State", ""):
            continue
        if "NodeName" in row and "gpu" in row.get("Gres", ""):
            gres = re.sub(r"\(S:[^)]*\)", "", row["Gres"])
            found.append(NodeState(row["NodeName"], gres, row.get("State", "").lower()))
    return found


def plan(
    nodes: Sequence[NodeState], wanted: Mapping[str, str], jobs: Iterable[QueuedJob]
) -> list[Step]:
    """Return what can be done with each node, those first that can be changed first.

    Args:
        nodes: those with GPUs.
        wanted: Gres= of each node afterwards; a node that is missing there stays as it is.
        jobs: the queue.
    """
    running, waiting = defaultdict[str, list[str]](list), list[QueuedJob]()
    for job in jobs:
        if job.is_holding:
            for host in _hosts(job.nodes):
                running[host].extend(job.job_ids)
        elif job.is_pending:
            waiting.append(job)
    rest = [node for node in nodes if node.name in wanted and not _is_done(node, wanted)]
    steps = []
    for node in nodes:
        if node.name not in wanted:
            continue
        stage, named = Stage.DONE, list[str]()
        if not _is_done(node, wanted):
            stage, named = _stage(node, running[node.name], waiting, rest)
        steps.append(Step(node.name, stage, tuple(named), wanted[node.name]))
    order = list(Stage)
    return sorted(steps, key=lambda step: (order.index(step.stage), len(step.jobs), step.node))


def _stage(
    node: NodeState, running: list[str], waiting: Sequence[QueuedJob], rest: Sequence[NodeState]
) -> tuple[Stage, list[str]]:
    if running:
        return Stage.BUSY, running
    kinds = kinds_of(node.gres)
    needing = [job for job in waiting if kinds & _named(job)]
    left = sum(1 for other in rest if kinds & kinds_of(other.gres))
    if needing and left <= max(job.node_count for job in needing):
        return Stage.HELD, [job_id for job in needing for job_id in job.job_ids]
    is_drained = "drain" in node.state or "down" in node.state
    return (Stage.READY if is_drained else Stage.EMPTY), []


def kinds_of(gres: str) -> frozenset[str]:
    """Return the GPU types of a Gres= that are no indices: {"a100"}."""
    try:
        entries = parse_gres(gres)
    except TresError:
        return frozenset()
    kinds = {entry.kind for entry in entries if entry.name == "gpu" and entry.kind}
    return frozenset(kind for kind in kinds if not _INDEX.fullmatch(kind))


def _named(job: QueuedJob) -> frozenset[str]:
    return frozenset(kind for _, text in job.tres for kind in kinds_of(text))


def _is_done(node: NodeState, wanted: Mapping[str, str]) -> bool:
    return _canonical(node.gres) == _canonical(wanted[node.name])


def _canonical(gres: str) -> object:
    """Return what two texts of the same resources have in common.

    Of `shard:8` Slurm shows how many each type of GPU has: `shard:g0:4,shard:g1:4`.
    """
    try:
        counts = Counter[tuple[str, str]]()
        for entry in parse_gres(gres):
            counts[entry.name, (entry.kind or "") if entry.name == GPU else ""] += entry.count
        return counts
    except TresError:
        return gres


def _hosts(nodes: str) -> list[str]:
    try:
        return expand(nodes)
    except HostlistError:
        return []
