"""The command line of a pin, from what scontrol showed of the job."""

import pytest

from roost_engine.domain.errors import SlurmRefused
from roost_engine.domain.model import JobId, NodeName, Placement
from roost_engine.domain.tier import Tier
from roost_engine.testing.builders import shape
from roost_slurm.text.scontrol import JobDetail
from roost_slurm.text.squeue import SlurmJobState
from roost_slurm.text.versions import SlurmVersion, traits_of
from roostd.slurm.request import pin_argv

OLD = traits_of(SlurmVersion(22, 5, 8))


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
    argv = pin_argv(JobId("7"), detail, Placement(nodes, (0, 1), shape(2, 2), Tier.RACK), OLD)
    assert "NumNodes=2-2" in argv
    assert "ReqNodeList=a,b" in argv


def test_a_job_on_one_node_keeps_the_count_it_has() -> None:
    detail = pending({"TresPerNode": "gres:gpu:2"}, (1, 1))
    argv = pin_argv(
        JobId("7"), detail, Placement((NodeName("a"),), (0, 1), shape(2), Tier.NODE), OLD
    )
    assert not [word for word in argv if word.startswith("NumNodes")]


def test_a_pin_keeps_the_count_of_the_model_and_the_memory_of_each_gpu() -> None:
    tres = {"TresPerNode": "gres:gpu:2,gres:h100:2", "MemPerTres": "gres:gpu:1000"}
    nodes = (NodeName("a"), NodeName("b"))
    argv = pin_argv(
        JobId("7"), pending(tres, (2, 2)), Placement(nodes, (0, 1), shape(2, 2), Tier.RACK), OLD
    )
    assert "TresPerJob=gres:gpu:g0:2,gres:gpu:g1:2,gres:h100:4" in argv
    assert not [word for word in argv if word.startswith("MemPerTres")]


def test_what_cannot_be_read_is_not_pinned() -> None:
    detail = pending({"TresPerNode": "gres:gpu:2,gres:h100:::"}, (1, 1))
    with pytest.raises(SlurmRefused, match="is not a list"):
        pin_argv(JobId("7"), detail, Placement((NodeName("a"),), (0, 1), shape(2), Tier.NODE), OLD)
