"""What people may ask of any job: whose it is, and how many GPUs it asks for."""

import pytest

from roost_slurm.text.squeue import QueuedJob
from roostd.slurm.job_facts import Owner, asked_gpu_count, owner_of


@pytest.mark.parametrize(
    ("tres", "tres_total", "count"),
    [
        ((("TresPerJob", "gres/gpu:6"),), "", 6),
        ((("TresPerNode", "gres/gpu:2"),), "", 4),
        ((("TresPerTask", "gres/gpu:1"),), "", 3),
        ((("TresPerNode", "gres:gpu:g0:1,gres:gpu:g1:1"),), "", 4),
        ((("TresPerNode", "gres/gpu:2"),), "cpu=4,node=2,gres/gpu=4,gres/gpu:a100=4", 4),
        ((("TresPerNode", "gres/gpu:a:b:c"),), "", 0),
        ((), "cpu=4,node=2", 0),
    ],
)
def test_the_gpus_of_all_nodes_are_counted(
    tres: tuple[tuple[str, str], ...], tres_total: str, count: int
) -> None:
    asked = QueuedJob(number=1, node_count=2, task_count=3, tres=tres, tres_total=tres_total)
    assert asked_gpu_count(asked) == count


def test_a_job_without_details_has_no_name() -> None:
    record = QueuedJob(
        number=1, user_id=42, partition="main", account="vision", qos="high", priority=7
    )
    assert owner_of(record, None) == Owner(42, "main", account="vision", qos="high", priority=7)
