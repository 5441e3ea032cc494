"""What the user of a job asked for, in Slurm's terms. Pure: no clock, no I/O."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

from roost_slurm.text.limits import whole_number
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import QueuedJob
from roost_slurm.text.stamp import Stamp, parse_stamp
from roost_slurm.text.tres import Gres, TresError, beside_gpus, gpu_count, gpu_kinds, parse_gres

_UNREADABLE = "unreadable"
_PER_GPU = ("CpusPerTres", "MemPerTres")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """What the user of a job asked for; for a pinned job, the request that the pin replaced.

    Attributes:
        stamp: of the job's lease; None: it has none.
        fields: what it asks for by Slurm's TresPerNode, TresPerJob, TresPerTask and so on.
        per_gpu_fields: the CPUs and memory for each GPU, as Slurm writes them.
        required_nodes: a hostlist; empty without one.
        task_count: of the whole job.
        tasks_per_node: None: the user did not fix it.
        sockets_per_node: 1 where the user did not fix it.
    """

    stamp: Stamp | None
    fields: Mapping[str, tuple[Gres, ...]]
    per_gpu_fields: Mapping[str, str]
    required_nodes: str
    task_count: int
    tasks_per_node: int | None
    sockets_per_node: int

    @classmethod
    def of(cls, job: QueuedJob, detail: JobDetail | None) -> "UserRequest":
        """Read a job's request; `is_readable` says whether that could be done."""
        stamp = parse_stamp(job.admin_comment)
        was = dict(stamp.was) if stamp else {}
        raw = dict(job.tres)
        if was:
            raw = was | {name: raw[name] for name in _PER_GPU if name in raw}
        required = was.get("ReqNodeList", "") if was else job.required_nodes
        return cls(
            stamp=stamp,
            fields={name: _gres(raw[name]) for name in raw if name.startswith("TresPer")},
            per_gpu_fields={name: raw[name] for name in _PER_GPU if name in raw},
            required_nodes=required,
            task_count=job.task_count,
            tasks_per_node=job.tasks_per_node,
            sockets_per_node=(detail.sockets_per_node if detail else None) or 1,
        )

    @property
    def is_readable(self) -> bool:
        """Whether every field is written as Slurm writes it."""
        return _UNREADABLE not in self.others

    @property
    def gpu_count(self) -> int:
        """The GPUs asked for, added up over all fields: more than 0 if it asks for any."""
        return sum(gpu_count(gres) for gres in self.fields.values())

    @property
    def kinds(self) -> frozenset[str]:
        """The types of GPUs that it names."""
        return frozenset().union(*(gpu_kinds(gres) for gres in self.fields.values()))

    @property
    def others(self) -> frozenset[str]:
        """The gres beside GPUs that it asks for."""
        return frozenset().union(*(beside_gpus(gres) for gres in self.fields.values()))

    def count(self, name: str) -> int:
        """Return the GPUs in one of Slurm's fields, 0 if it is absent."""
        return gpu_count(self.fields.get(name, ()))

    def per_gpu(self, name: str) -> str:
        """Return the amount in `CpusPerTres` or `MemPerTres`: "3" for `gres:gpu:3`; "" for none."""
        return re.split("[:=]", self.per_gpu_fields.get(name, ""))[-1]

    def node_counts(self, allowed: range) -> Iterable[int]:
        """Return the node counts in a range among which the GPUs may divide, ascending.

        Where few counts can be right only those are returned: a user may give a wide range.
        """
        if self.count("TresPerNode") or self.count("TresPerSocket"):
            return allowed
        if self.count("TresPerTask"):
            several = self.task_count // self.tasks_per_node if self.tasks_per_node else 1
            fitting = frozenset((1, several))
        else:
            fitting = _divisors(self.count("TresPerJob"))
        return sorted(count for count in fitting if count in allowed)

    def gpus_per_node(self, node_count: int) -> int:
        """Return the GPUs on each of `node_count` nodes; 0: the job cannot have that many nodes."""
        if per_node := self.count("TresPerNode"):
            return per_node
        if per_socket := self.count("TresPerSocket"):
            return per_socket * self.sockets_per_node
        if per_task := self.count("TresPerTask"):
            if node_count == 1:
                return per_task * self.task_count
            # Without a fixed number of tasks per node Slurm distributes the CPUs freely, and the
            # job's steps may then ask for more than their node has.
            tasks_per_node = self.tasks_per_node or 0
            return (
                per_task * tasks_per_node if tasks_per_node * node_count == self.task_count else 0
            )
        total = self.count("TresPerJob")
        return 0 if total % node_count else total // node_count

    def allowed_node_counts(self, detail: JobDetail) -> range:
        """Return the range of node counts that the job may get, ascending.

        Raises:
            ValueError: a number of nodes cannot be read.
        """
        least, most = max(detail.min_node_count, 1), detail.max_node_count
        was = dict(self.stamp.was).get("NumNodes") if self.stamp else None
        if was is not None:
            low, _, high = was.partition("-")
            least, most = max(whole_number(low), 1), whole_number(high) if high else None
        if most is None:
            # No upper end: only a GPU count for the whole job gains from more nodes than the least.
            most = self.count("TresPerJob")
        return range(least, max(least, most) + 1)

    def cpus_per_node(self, job: QueuedJob, node_count: int, gpus_per_node: int) -> int:
        """Return the CPUs that the job needs on each of `node_count` nodes, at least 1.

        Raises:
            ValueError: a number of CPUs cannot be read.
        """
        cpus = -(-job.cpu_count // node_count)
        per_gpu = self.per_gpu("CpusPerTres")
        of_gpus = whole_number(per_gpu) * gpus_per_node if per_gpu.isdecimal() else 0
        return max(cpus, of_gpus, 1)


@lru_cache(maxsize=1_000)
def _divisors(number: int) -> frozenset[int]:
    low = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return frozenset((*low, *(number // one for one in low)))


def _gres(text: str) -> tuple[Gres, ...]:
    try:
        return parse_gres(text)
    except TresError:
        return (Gres(_UNREADABLE, None, 1),)
