"""The Hello message: the topology on the wire."""

from pathlib import Path

from roost_probe.agent.hello import MOST_PROBLEMS, MOST_TEXT, build_hello
from roost_probe.driver.readings import GpuFacts
from roost_probe.node.nic import Nic
from roost_probe.node.pci import Level, PciPath
from roost_probe.node.topology import Link, Topology
from roost_proto.v1 import telemetry_pb2


def topology(*gpus: GpuFacts, problems: tuple[str, ...] = ()) -> Topology:
    nic = Nic(
        "mlx5_0", PciPath(("pci0000:00", "0000:40:00.0"), 1), (Level.INTERNAL, None), Path("/")
    )
    link = Link(0, 1, Level.SYSTEM, nvlink_count=4, nvswitch=True)
    return Topology("580.95.05", gpus, (link,), (nic,), (), problems)


def hello(of: Topology, *problems: str) -> telemetry_pb2.Hello:
    return build_hello("n1", "session", of, problems)


def test_a_lost_gpu_keeps_its_index_under_a_unique_name() -> None:
    gpus = hello(topology(GpuFacts(uuid="GPU-a", pci_bus_id="0000:17:00.0"), GpuFacts())).gpus
    assert [(gpu.index, gpu.uuid, gpu.pci_bus_id) for gpu in gpus] == [
        (0, "GPU-a", "0000:17:00.0"),
        (1, "lost-1", "lost-1"),
    ]


def test_a_numa_node_is_stated_only_where_there_is_one() -> None:
    facts = [GpuFacts(numa_nodes=nodes) for nodes in ((0,), (0, 1), ())]
    gpus = hello(topology(*facts)).gpus
    assert [gpu.HasField("numa_node") for gpu in gpus] == [True, False, False]
    assert gpus[0].numa_node == 0


def test_unknown_facts_are_absent_and_not_zero() -> None:
    known, unknown = hello(topology(GpuFacts(minor_number=0, mig_enabled=False), GpuFacts())).gpus
    for field in ("minor_number", "mig_enabled"):
        assert (known.HasField(field), unknown.HasField(field)) == (True, False)


def test_links_and_nics_keep_their_levels() -> None:
    built = hello(topology())
    assert built.links[0] == telemetry_pb2.Link(
        a=0, b=1, level=telemetry_pb2.ANCESTOR_LEVEL_SYSTEM, nvlink_count=4, nvswitch=True
    )
    assert (built.nics[0].pci_bus_id, built.nics[0].numa_node) == ("0000:40:00.0", 1)
    assert list(built.nics[0].gpu_levels) == [
        telemetry_pb2.ANCESTOR_LEVEL_INTERNAL,
        telemetry_pb2.ANCESTOR_LEVEL_UNSPECIFIED,
    ]
    assert not built.nics[0].HasField("bytes_per_s")


def test_problems_are_cut_to_what_the_daemon_accepts() -> None:
    built = hello(topology(problems=("x" * 1000,) * 100), "first")
    assert built.problems[0] == "first"
    assert len(built.problems) == MOST_PROBLEMS
    assert {len(text) for text in built.problems[1:]} == {MOST_TEXT}
