"""GPUs that slurmctld counts as used though no job has them, in two readings in a row."""

from collections.abc import Iterable, Mapping

from roost_engine.domain.model import NodeName
from roost_slurm.text.stranded import Held, held_by_jobs, stranded
from roostd.slurm.port import QueueSnapshot, SlurmNode


class StrandedGpus:
    """Compares the nodes with the jobs; a GPU counts once two comparisons in a row find it."""

    def __init__(self) -> None:
        self._before: Mapping[NodeName, frozenset[int]] = {}

    def compare(
        self, nodes: Iterable[SlurmNode], snapshot: QueueSnapshot
    ) -> Mapping[NodeName, int]:
        """Return how many GPUs of each node no job had, in this reading and in the last.

        Args:
            nodes: as slurmctld showed them just before the snapshot.
            snapshot: the queue.
        """
        used = [node for node in nodes if node.used_gpus]
        held = held_by_jobs(snapshot.jobs, snapshot.details) if used else {}
        now = {
            node.spec.name: stranded(
                node.used_gpus,
                node.cpu_allocated_count,
                node.state,
                held.get(node.spec.name, Held()),
            )
            for node in used
        }
        before, self._before = self._before, now
        again = {name: gpus & before.get(name, frozenset()) for name, gpus in now.items()}
        return {name: len(gpus) for name, gpus in again.items() if gpus}
