"""The view of Slurm's queue: what it says of nodes with reserved GPUs."""

from roost_engine.domain.model import NodeName
from roost_engine.testing.builders import share
from roostd.slurm.queue_view import SlurmQueueView
from roostd.slurm.reserved_gpus import ReservedGpus, job_id_of


def reserved(name: str, possible: range) -> ReservedGpus:
    """Two GPUs of a node."""
    node = NodeName(name)
    return ReservedGpus(
        start_epoch_s=0.0,
        end_epoch_s=100.0,
        gpu_count=2,
        counts={node: 2},
        possible={node: frozenset(possible)},
        proven={node: frozenset()},
        since_epoch_s=0.0,
    )


def test_nodes_are_unsure_while_a_reservation_closes_gpus_that_may_be_others() -> None:
    found = {
        "sure": reserved("n1", range(2)),
        "unsure": reserved("n2", range(3)),
        "later": reserved("n3", range(3)),
    }
    closed = {job_id_of(name): (share("n2", 0, 1),) for name in ("sure", "unsure")}
    assert SlurmQueueView(reserved=found, running=closed).unsure_nodes == {"n2"}
