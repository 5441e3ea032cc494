"""The topology and samples on the terminal."""

import json
from pathlib import Path

from roost_probe.driver.readings import DriverFacts, DriverLoad, GpuFacts, GpuLoad
from roost_probe.node.nic import Nic
from roost_probe.node.pci import Level, PciPath
from roost_probe.node.sampler import Sampler
from roost_probe.node.topology import Link, Topology
from roost_probe.show import (
    format_json,
    format_matrix,
    format_sample,
    format_sample_json,
    sample_rows,
    symbol_matrix,
)


def nic(name: str, *levels: Level | None) -> Nic:
    return Nic(name, PciPath((f"{name}.0",), None), levels, Path("/sys"))


TOPOLOGY = Topology(
    driver_version="580.95.05",
    gpus=(GpuFacts(uuid="GPU-a", numa_nodes=(0,), cpu_affinity="0-31"), GpuFacts()),
    links=(Link(0, 1, Level.SYSTEM, nvlink_count=4, nvswitch=False),),
    nics=(nic("mlx5_0", Level.SINGLE_SWITCH, Level.SYSTEM), nic("eth0", Level.SYSTEM, None)),
    nic_levels=((Level.INTERNAL, Level.HOST_BRIDGE), (Level.HOST_BRIDGE, Level.INTERNAL)),
    problems=("GPU 1 is lost",),
)
LOAD = DriverLoad(
    at_s=0.0,
    gpus=(GpuLoad(lost=True), GpuLoad(power_w=0.0), GpuLoad(power_w=312.5, sm_frac=0.87)),
    xids=((0, 79),),
)


def test_the_matrix_is_symmetric_with_gpus_before_nics() -> None:
    assert symbol_matrix(TOPOLOGY) == [
        ["X", "NV4", "PIX", "SYS"],
        ["NV4", "X", "SYS", "?"],
        ["PIX", "SYS", "X", "PHB"],
        ["SYS", "?", "PHB", "X"],
    ]


def test_the_table_is_tabbed_as_nvidia_smi_writes_it() -> None:
    head, first, second, *_ = format_matrix(TOPOLOGY).split("\n")
    assert head == "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity"
    assert first == "GPU0\t X \tNV4\tPIX\tSYS\t0-31\t0"
    assert second == "GPU1\tNV4\t X \tSYS\t?\tN/A\tN/A"
    assert "  NIC1: eth0" in format_matrix(TOPOLOGY)


def test_a_node_without_nics_has_no_nic_legend() -> None:
    bare = Topology(None, (GpuFacts(),), (), (), (), ())
    assert "NIC Legend" not in format_matrix(bare)


def test_json_has_the_matrix_and_unknown_facts_as_null() -> None:
    document = json.loads(format_json(TOPOLOGY, "n1"))
    assert document["node"] == "n1"
    assert document["matrix"] == symbol_matrix(TOPOLOGY)
    assert document["gpus"][1]["numa_node"] is None
    assert document["links"][0]["level"] == "system"
    assert document["nics"][1]["gpu_levels"] == ["system", None]
    assert document["problems"] == ["GPU 1 is lost"]


def test_columns_of_a_sample_are_given_back_to_their_gpus() -> None:
    rows = sample_rows(Sampler().sample(LOAD))
    assert [row["power_w"] for row in rows] == [None, 0.0, 312.5]
    assert [row["sm_frac"] is None for row in rows] == [True, True, False]


def test_a_value_that_the_driver_did_not_report_is_a_dash() -> None:
    head, *rows = (line.split("\t") for line in format_sample(Sampler().sample(LOAD)).split("\n"))
    column = head.index("power_w")
    assert [(row[1], row[column]) for row in rows] == [("lost", "-"), ("ok", "0"), ("ok", "312.5")]


def test_a_sample_as_json_names_lost_gpus_and_xids() -> None:
    facts = DriverFacts(gpus=(GpuFacts(uuid="GPU-a"), GpuFacts(uuid="GPU-b")))
    document = json.loads(format_sample_json(facts, Sampler().sample(LOAD)))
    assert [gpu["uuid"] for gpu in document["gpus"]] == ["GPU-a", "GPU-b", None]
    assert [gpu["lost"] for gpu in document["gpus"]] == [True, False, False]
    assert document["xid_events"] == [{"gpu_index": 0, "code": 79}]
