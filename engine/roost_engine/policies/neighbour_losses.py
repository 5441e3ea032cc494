"""What readers outside the engine ask of a score policy that predicts what neighbours cost."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.domain.tier import Tier


class NeighbourLoss(NamedTuple):
    """What neighbours are predicted to cost a running job.

    Attributes:
        mean, spread: of its log slowdown, on its slowest node.
        beside: its neighbours, each with the closest level that they share, by their ids.
        tier: of the job's GPUs.
    """

    mean: float
    spread: float
    beside: tuple[tuple[JobId, str], ...]
    tier: Tier


@runtime_checkable
class PredictsLosses(Protocol):
    """A score policy that predicts what running jobs lose by their neighbours.

    Attributes:
        name: of the model that predicts.
    """

    name: str

    @property
    def correction_count(self) -> int:
        """How many pairs of kinds reports of progress correct."""

    def loss_of(
        self, cluster: Cluster, job_id: JobId, spec_of: Callable[[JobId], JobSpec | None]
    ) -> NeighbourLoss | None:
        """Predict for a job on the GPUs that it holds; None where it holds none.

        Raises:
            PolicyError: the model could not answer.
        """
