"""The command line of a pin, from what scontrol showed of the job."""

import pytest

from roost_engine.domain.model import JobId, NodeName, Placement
from roost_engine.domain.tier import Tier
from roost_engine.testing.builders import shape
from roost_slurm.scontrol import JobDetail
from roost_slurm.squeue import SlurmJobState
from roostd.slurm.request import pin_argv


def pending(tres: dict[str, str], nodes: tuple[int, int | None]) -> JobDetail:
    return JobDetail(
        number=7,
        state=SlurmJobState.PENDING,
        reason="BeginTime",
        is_held=False,
        min_node_count=nodes[0],
        max_node_count=nodes[1],
        excluded_nodes="",
        required_nodes="",
        tres=tres,
    )


@pytest.mark.parametrize("shown", [(1, None), (2, None), (2, 2)], ids=["22.05", "24.11", "-N2"])
def test_a_gang_takes_all_of_its_nodes_however_the_release_counts_them(
    shown: tuple[int, int | None],
) -> None:
    detail = pending({"TresPerJob": "gres/gpu:4"}, shown)
    nodes = (NodeName("a"), NodeName("b"))
    argv = pin_argv(JobId("7"), detail, Placement(nodes, (0, 1), shape(2, 2), Tier.RACK))
    assert "NumNodes=2-2" in argv
    assert "ReqNodeList=a,b" in argv


def test_a_job_on_one_node_keeps_the_count_it_has() -> None:
    detail = pending({"TresPerNode": "gres:gpu:2"}, (1, 1))
    argv = pin_argv(JobId("7"), detail, Placement((NodeName("a"),), (0, 1), shape(2), Tier.NODE))
    assert not [word for word in argv if word.startswith("NumNodes")]
