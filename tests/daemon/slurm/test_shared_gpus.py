"""GPUs of which running jobs have shards or MPS: one holder each, until the last job ends."""

from roost_engine.domain.model import NodeName, NodeShare
from roost_slurm.text.scontrol import AllocatedNode, JobDetail
from roost_slurm.text.squeue import SlurmJobState
from roostd.slurm.shared_gpus import SharedGpus, has_shared

N1, N2 = NodeName("n1"), NodeName("n2")


def detail(*shared: tuple[str, tuple[int, ...]]) -> JobDetail:
    return JobDetail(
        number=1,
        state=SlurmJobState.RUNNING,
        reason="None",
        is_held=False,
        min_node_count=1,
        max_node_count=1,
        excluded_nodes="",
        required_nodes="",
        allocated=tuple(
            AllocatedNode(node, (), 1, 0, shared_indices=indices) for node, indices in shared
        ),
    )


def test_each_gpu_has_one_holder_until_the_last_of_its_jobs_ends() -> None:
    shared = SharedGpus([N1, N2])
    shared.add(detail(("n1", (0, 3)), ("n2", (0,))), 100.0)
    shared.add(detail(("n1", (3,))), 250.0)
    shared.add(detail(("n2", (0,))), None)
    assert shared.holders([]) == [
        ("shards n1:0", NodeShare(N1, (0,)), 100.0),
        ("shards n1:3", NodeShare(N1, (3,)), 250.0),
        ("shards n2:0", NodeShare(N2, (0,)), None),
    ]


def test_gpus_that_a_job_has_as_a_whole_have_no_other_holder() -> None:
    shared = SharedGpus([N1])
    shared.add(detail(("n1", (0, 1)), ("cpu1", (0,))), 100.0)
    held = [(NodeShare(N2, (0,)), NodeShare(N1, (1, 2)))]
    assert [job_id for job_id, _, _ in shared.holders(held)] == ["shards n1:0"]


def test_jobs_with_shards_are_told_from_others() -> None:
    assert has_shared(detail(("n1", ()), ("n2", (1,))))
    assert not has_shared(detail(("n1", ())))
