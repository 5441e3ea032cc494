"""Which jobs Roost steers where the site lets it steer only some. Pure: no clock, no I/O."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from roost_engine.domain.model import NodeName, NodeSpec
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
