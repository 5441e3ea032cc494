"""What `scontrol show partitions` prints: users that may run jobs there, and limits of jobs."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from roost_slurm.text.limits import whole_number
from roost_slurm.text.times import parse_limit

_PAIR = re.compile(r"(?:^|\s)([A-Za-z]+)=(\S*)")
_NO_NUMBER = frozenset({"UNLIMITED", "INFINITE", ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition.

    Attributes:
        nodes: its host list, nodes too that Slurm shows nowhere else.
        state: UP, DOWN (queues jobs, starts none), DRAIN (starts queued jobs, takes no new ones) or
            INACTIVE (neither).
        tier: PriorityTier.
        qos: of the partition, whose limits hold beside those of the job's QoS; "" for none.
        max_node_count, max_time_s, max_cpus_per_node, max_cpus_per_socket: None: no limit; 22.05
            knows no limit by socket.
        allowed_accounts, allowed_qos: None: all but the denied ones.
        preempt_modes: how jobs there are preempted under preempt/partition_prio, upper case.
        over_subscribe: "NO", "EXCLUSIVE", "YES:4", "FORCE:4".
        exclusive_to: "USER": jobs of one user at a time have a node (ExclusiveUser=YES); "TOPO":
            one job at a time has a switch or block (ExclusiveTopo=YES); from 26.05 on Exclusive=.
        topology: Topology=, from 25.05 on; "": the cluster's default one.
    """

    name: str
    nodes: str = ""
    state: str = "UP"
    tier: int = 1
    qos: str = ""
    max_node_count: int | None = None
    max_time_s: float | None = None
    max_cpus_per_node: int | None = None
    max_cpus_per_socket: int | None = None
    allowed_accounts: frozenset[str] | None = None
    denied_accounts: frozenset[str] = frozenset()
    allowed_qos: frozenset[str] | None = None
    denied_qos: frozenset[str] = frozenset()
    preempt_modes: frozenset[str] = frozenset()
    over_subscribe: str = "NO"
    exclusive_to: str = ""
    topology: str = ""

    @property
    def starts_jobs(self) -> bool:
        """Return whether jobs that are queued there may start."""
        return self.state not in ("DOWN", "INACTIVE")


def parse_partitions(text: str) -> dict[str, Partition]:
    """Read `scontrol -a -o show partitions`, by name; lines that are none are left out."""
    lines = (line for line in text.split("\n") if line.startswith("PartitionName="))
    partitions = (_partition(dict(_PAIR.findall(line))) for line in lines)
    return {one.name: one for one in partitions if one is not None}


def _partition(row: Mapping[str, str]) -> Partition | None:
    try:
        return Partition(
            name=row["PartitionName"],
            nodes=row.get("Nodes", "").replace("(null)", ""),
            state=row["State"],
            tier=whole_number(row["PriorityTier"]),
            qos="" if row.get("QoS", "N/A") == "N/A" else row["QoS"],
            max_node_count=_limit(row["MaxNodes"]),
            max_time_s=parse_limit(row["MaxTime"]),
            max_cpus_per_node=_limit(row.get("MaxCPUsPerNode", "")),
            max_cpus_per_socket=_limit(row.get("MaxCPUsPerSocket", "")),
            allowed_accounts=_allowed(row.get("AllowAccounts", "ALL")),
            denied_accounts=_words(row.get("DenyAccounts", "")),
            allowed_qos=_allowed(row.get("AllowQos", "ALL")),
            denied_qos=_words(row.get("DenyQos", "")),
            preempt_modes=_words(row.get("PreemptMode", "")),
            over_subscribe=row.get("OverSubscribe", "NO"),
            exclusive_to=_exclusive_to(row),
            topology=row.get("Topology", "").replace("(null)", ""),
        )
    except (KeyError, ValueError):
        return None


def _exclusive_to(row: Mapping[str, str]) -> str:
    if row.get("ExclusiveUser") == "YES" or row.get("Exclusive") == "USER":
        return "USER"
    return "TOPO" if row.get("ExclusiveTopo") == "YES" or row.get("Exclusive") == "TOPO" else ""


def _limit(text: str) -> int | None:
    return None if text in _NO_NUMBER else whole_number(text)


def _allowed(text: str) -> frozenset[str] | None:
    return None if text == "ALL" else _words(text)


def _words(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))
