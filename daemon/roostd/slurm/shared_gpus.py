"""GPUs on which Slurm runs jobs by shards or MPS: no job can have them as a whole meanwhile."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from math import inf

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_slurm.text.scontrol import JobDetail

_HOLDER = "shards "


class SharedGpus:
    """Collects these GPUs from the running jobs of one poll of the queue.

    In the engine a GPU has one holder, and a second seat at most; it cannot express the jobs on a
    hundred shards. So each such GPU counts as held by one job that Slurm does not have, which is
    also how the GPUs of a reservation count.
    """

    def __init__(self, gpu_nodes: Collection[NodeName]) -> None:
        self._gpu_nodes = gpu_nodes
        self._ends_s = defaultdict[tuple[NodeName, int], float](float)

    def add(self, detail: JobDetail, end_s: float | None) -> None:
        """Add a running job.

        Args:
            detail: of the job.
            end_s: engine time of its end at the latest; None: it has no time limit.
        """
        for node in detail.allocated:
            if (name := NodeName(node.node)) in self._gpu_nodes:
                for index in node.shared_indices:
                    latest_s = inf if end_s is None else end_s
                    self._ends_s[name, index] = max(self._ends_s[name, index], latest_s)

    def holders(
        self, running: Iterable[Iterable[NodeShare]]
    ) -> list[tuple[JobId, NodeShare, float | None]]:
        """Return for each GPU its holder, the holder's share, and when it ends; None: unknown.

        The end is engine time, the latest of the jobs there.

        Args:
            running: the shares of jobs that have whole GPUs; those GPUs are left out.
        """
        held = {
            (share.node, index)
            for shares in running
            for share in shares
            for index in share.gpu_indices
        }
        return [
            (
                JobId(f"{_HOLDER}{name}:{index}"),
                NodeShare(name, (index,)),
                None if end_s == inf else end_s,
            )
            for (name, index), end_s in self._ends_s.items()
            if (name, index) not in held
        ]


def has_shared(detail: JobDetail) -> bool:
    """Return whether a job has shards or MPS of a GPU."""
    return any(node.shared_indices for node in detail.allocated)


def is_holder(job_id: JobId) -> bool:
    """Return whether a job is the holder of a GPU that jobs have in parts."""
    return job_id.startswith(_HOLDER)
