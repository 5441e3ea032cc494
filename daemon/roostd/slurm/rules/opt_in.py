"""Which jobs Roost steers where the site lets it steer only some. Pure: no clock, no I/O."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from roost_engine.domain.model import JobSpec, NodeName, NodeSpec
from roost_slurm.text.squeue import QueuedJob


@dataclass(frozen=True, slots=True)
class OptIn:
    """The accounts and QoS whose jobs Roost steers; empty: all. Slurm's names are lower case.

    Attributes:
        accounts: of roostd.yaml.
        qos: of roostd.yaml.
    """

    accounts: Collection[str] = ()
    qos: Collection[str] = ()

    def why_not(self, job: QueuedJob) -> str | None:
        """Return why a job is left to Slurm; None: Roost may steer it."""
        for what, named, has in (
            ("account", self.accounts, job.account),
            ("QoS", self.qos, job.qos),
        ):
            if named and has.lower() not in map(str.lower, named):
                key = "accounts" if what == "account" else "qos"
                return f"{what} {has or 'not set'} is not in {key} of roostd.yaml: left to Slurm"
        return None


def nodes_outside(
    listed: Mapping[str, Collection[str]],
    nodes: Iterable[NodeSpec],
    untyped: Collection[NodeName] = (),
    untyped_partitions: Collection[str] = (),
) -> Mapping[str, frozenset[NodeName]]:
    """Return the nodes that Roost does not give out, of each partition that has such nodes.

    Args:
        listed: the list of nodes of each partition with a list.
        nodes: of the cluster.
        untyped: nodes whose GPUs do not have types by index.
        untyped_partitions: the enforced partitions of these.
    """
    specs = tuple(nodes)

    def outside(spec: NodeSpec, partition: str) -> bool:
        if partition not in spec.partitions:
            return False
        is_listed = partition not in listed or spec.name in listed[partition]
        return not is_listed or (spec.name in untyped and partition in untyped_partitions)

    return {
        partition: frozenset(spec.name for spec in specs if outside(spec, partition))
        for partition in sorted({*listed, *untyped_partitions})
    }


# Nodes by what decides whether a job fits on them: GPUs, CPUs, memory and features.
NodeKind: TypeAlias = tuple[int, int, int, tuple[str, ...]]
NodeKinds: TypeAlias = Mapping[NodeKind, frozenset[NodeName]]


def kinds_of(nodes: Iterable[NodeSpec]) -> NodeKinds:
    """Return nodes by kind: a partition has few of these, and a queue many jobs."""
    kinds: dict[NodeKind, set[NodeName]] = {}
    for node in nodes:
        kind = node.gpu_count, node.cpu_count, node.memory_bytes, node.features
        kinds.setdefault(kind, set()).add(node.name)
    return {kind: frozenset(names) for kind, names in kinds.items()}


def starts_elsewhere(
    job: JobSpec, outside: NodeKinds, hidden: frozenset[NodeName] = frozenset()
) -> bool:
    """Return whether Slurm could ever start a job on nodes that Roost does not give out.

    Args:
        job: as its user asked for it: no node is excluded that only Roost leaves out.
        outside: the nodes of its partition that Roost does not give out.
        hidden: those of which no more is known than their names.
    """
    fitting = [names for kind, names in outside.items() if _fits(job, kind)]
    excluded = frozenset(job.excluded_nodes)
    if job.required_nodes and max(one.node_count for one in job.shapes) <= len(job.required_nodes):
        named = frozenset(job.required_nodes) - excluded
        return any(not names.isdisjoint(named) for names in (*fitting, hidden))
    return any(not names <= excluded for names in (*fitting, hidden))


def _fits(job: JobSpec, kind: NodeKind) -> bool:
    gpu_count, cpu_count, memory_bytes, features = kind
    return set(job.features).issubset(features) and any(
        shape.gpus_per_node <= gpu_count
        and shape.cpus_per_node <= cpu_count
        and shape.memory_per_node_bytes <= memory_bytes
        for shape in job.shapes
    )
