"""messages.nodes: nodes that Slurm names, who holds their GPUs, and what their probes say."""

import pytest
from tests.daemon.rpc.messages.told_jobs import N1, ONE, start
from tests.daemon.rpc.probes import hello, sample
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.errors import UnknownNode
from roost_engine.domain.events import Event, NodeLost
from roost_engine.domain.model import NodeName
from roostd.rpc.errors import UnknownTopology
from roostd.rpc.messages import nodes
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.foreign_memory import Foreign, ForeignMemory
from roostd.telemetry.probe_messages import read_hello


def test_nodes_that_slurm_dropped_are_not_told(state: DaemonState) -> None:
    assert nodes.node_names(state) == ["n1", "n2"]
    state.engine.step(NodeLost(at_s=101.0, name=N1))

    assert nodes.node_names(state) == ["n2"]
    with pytest.raises(UnknownNode):
        nodes.node(state, N1, {})


def test_a_node_tells_free_cpus_and_the_holder_of_each_gpu(state: DaemonState) -> None:
    start(state, ONE, 0, 1, cpu_count=3)

    told = nodes.node(state, N1, nodes.holders(state))

    assert (told.cpu_count, told.cpu_free_count) == (8, 5)
    assert [gpu.job_id for gpu in told.gpus] == ["1", "1", "", ""]
    assert [gpu.free for gpu in told.gpus] == [False, False, True, True]


def test_a_node_tells_of_memory_that_no_job_holds(state: DaemonState) -> None:
    report = state.board.apply_hello(read_hello(hello("n1")), "stream")
    state.board.apply_sample(report, sample(), is_checked=True)
    state.foreign[N1, 2] = Foreign(ForeignMemory(5 << 30, 1001, 9), None, 0.0)
    state.foreign[NodeName("n2"), 1] = Foreign(ForeignMemory(5 << 30), None, 0.0)

    assert list(nodes.node(state, N1, {}).problems) == [
        "GPU 2: processes of no job there use 5.0 GiB; see roostctl waste"
    ]


@pytest.mark.parametrize(
    ("gpu_count", "silent_s", "problems"),
    [
        (4, 10.0, []),
        (4, 11.0, ["the probe has been silent for 11 s"]),
        (
            3,
            0.0,
            [
                "the probe sees 3 GPUs, Slurm 4: links and load are not used; check gres.conf",
            ],
        ),
    ],
)
def test_a_node_tells_what_is_wrong_with_its_probe(
    state: DaemonState, gpu_count: int, silent_s: float, problems: list[str]
) -> None:
    report = state.board.apply_hello(read_hello(hello("n1", gpu_count)), "stream")
    state.board.apply_sample(report, sample(gpu_count=gpu_count), is_checked=True)
    assert isinstance(state.clock, ManualClock)
    state.clock.at_s += silent_s

    assert list(nodes.node(state, N1, {}).problems) == problems


def test_links_are_known_only_of_nodes_with_a_probe_that_has_gpus(state: DaemonState) -> None:
    with pytest.raises(UnknownNode):
        nodes.topology(state, NodeName("n9"))
    with pytest.raises(UnknownTopology, match="node n1 has no probe"):
        nodes.topology(state, N1)
    state.board.apply_hello(read_hello(hello("n1", lanes={(1, 3): 4})), "stream")
    lanes = {(link.a, link.b): link.nvlink_count for link in nodes.topology(state, N1).links}
    assert {pair for pair, count in lanes.items() if count} == {(1, 3)}


def test_uuids_are_told_in_the_order_asked_or_not_at_all(state: DaemonState) -> None:
    assert nodes.uuids(state, N1, [0]) == []
    told: list[Event] = []
    state.board = ProbeBoard(state.clock.now_s, told.append)
    state.board.apply_hello(read_hello(hello("n1")), "stream")
    for event in told:
        state.engine.step(event)

    assert nodes.uuids(state, N1, [3, 1]) == ["GPU-n1-3", "GPU-n1-1"]
    assert nodes.uuids(state, N1, [3, 4]) == []
    assert nodes.uuids(state, NodeName("n9"), [0]) == []


def test_a_node_tells_how_many_gpus_slurm_has_stranded(state: DaemonState) -> None:
    state.stranded_gpus = {N1: 2}
    first, *_ = nodes.node_problems(state, N1, 4, None)
    assert first == "slurmctld counts 2 GPUs as used that no job has: scontrol reconfigure"
    assert [*nodes.node_problems(state, NodeName("n2"), 4, None)] == [
        "no probe: links and load are unknown"
    ]
