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
    listed: Mapping[str, Collection[str]], nodes: Iterable[NodeSpec]
) -> Mapping[str, frozenset[NodeName]]:
    """Return the nodes of each partition with a list of nodes that are not on the list.

    Args:
        listed: the list of each such partition.
        nodes: of the cluster.
    """
    specs = tuple(nodes)
    return {
        partition: frozenset(
            spec.name for spec in specs if partition in spec.partitions and spec.name not in names
        )
        for partition, names in listed.items()
    }
