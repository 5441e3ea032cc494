"""The topology and samples on the terminal: as `nvidia-smi topo -m` prints it, or as JSON."""

import json
from typing import TypeAlias

from roost_probe.driver.readings import DriverFacts
from roost_probe.node.pci import SYMBOLS
from roost_probe.node.topology import Topology
from roost_proto.v1 import telemetry_pb2

Row: TypeAlias = dict[str, float | int | None]

JSON_SCHEMA = 1

_COLUMNS = (
    "sm_frac",
    "memory_activity_frac",
    "memory_used_bytes",
    "power_w",
    "temperature_c",
    "pcie_tx_bytes_per_s",
    "pcie_rx_bytes_per_s",
    "nvlink_tx_bytes_per_s",
    "nvlink_rx_bytes_per_s",
    "sm_clock_hz",
    "throttle_reasons",
    "ecc_uncorrected_count",
)

_LEGEND = """\
Legend:

  X    = Self
  SYS  = PCIe and the interconnect between CPU sockets
  NODE = PCIe and the interconnect between host bridges of one NUMA node
  PHB  = PCIe and one host bridge
  PXB  = several PCIe switches, no host bridge
  PIX  = one PCIe switch at most
  NV#  = # NVLink lanes, directly or through NVSwitch
"""


def symbol_matrix(topology: Topology) -> list[list[str]]:
    """Return the symbols between all devices: GPUs first, then NICs. "X" on the diagonal."""
    gpu_count, nic_count = len(topology.gpus), len(topology.nics)
    size = gpu_count + nic_count
    matrix = [["X"] * size for _ in range(size)]
    for link in topology.links:
        matrix[link.a][link.b] = matrix[link.b][link.a] = link.symbol
    for n, nic in enumerate(topology.nics):
        for gpu in range(gpu_count):
            level = nic.gpu_levels[gpu]
            symbol = "?" if level is None else SYMBOLS[level]
            matrix[gpu_count + n][gpu] = matrix[gpu][gpu_count + n] = symbol
        for m in range(nic_count):
            if m != n:
                matrix[gpu_count + n][gpu_count + m] = SYMBOLS[topology.nic_levels[n][m]]
    return matrix


def format_matrix(topology: Topology) -> str:
    """Return the table of `nvidia-smi topo -m`, tabs and all, with its legends."""
    gpu_count = len(topology.gpus)
    names = [f"GPU{i}" for i in range(gpu_count)] + [f"NIC{i}" for i in range(len(topology.nics))]
    lines = ["\t".join(["", *names, "CPU Affinity", "NUMA Affinity"])]
    for position, row in enumerate(symbol_matrix(topology)):
        cells = [names[position], *(f" {s} " if s == "X" else s for s in row)]
        if position < gpu_count:
            gpu = topology.gpus[position]
            numa = ",".join(map(str, gpu.numa_nodes))
            cells += [gpu.cpu_affinity or "N/A", numa or "N/A"]
        lines.append("\t".join(cells))
    lines += ["", _LEGEND]
    if topology.nics:
        legend = [f"  NIC{i}: {nic.name}" for i, nic in enumerate(topology.nics)]
        lines += ["NIC Legend:", "", *legend, ""]
    return "\n".join(lines)


def format_json(topology: Topology, node: str) -> str:
    """Return one JSON object; docs/probe.md lists the keys."""
    document = {
        "schema": JSON_SCHEMA,
        "node": node,
        "driver_version": topology.driver_version,
        "gpus": [
            {
                "index": index,
                "uuid": gpu.uuid,
                "pci_bus_id": gpu.pci_bus_id,
                "model": gpu.model,
                "memory_bytes": gpu.memory_bytes,
                "minor_number": gpu.minor_number,
                "numa_node": gpu.numa_nodes[0] if len(gpu.numa_nodes) == 1 else None,
                "cpu_affinity": gpu.cpu_affinity,
                "mig_enabled": gpu.mig_enabled,
            }
            for index, gpu in enumerate(topology.gpus)
        ],
        "links": [
            {
                "a": link.a,
                "b": link.b,
                "level": link.level.name.lower(),
                "nvlink_count": link.nvlink_count,
                "nvswitch": link.nvswitch,
                "symbol": link.symbol,
            }
            for link in topology.links
        ],
        "nics": [
            {
                "name": nic.name,
                "pci_bus_id": nic.place.address,
                "numa_node": nic.place.numa_node,
                "gpu_levels": [level and level.name.lower() for level in nic.gpu_levels],
                "bytes_per_s": nic.bytes_per_s,
            }
            for nic in topology.nics
        ],
        "matrix": symbol_matrix(topology),
        "problems": list(topology.problems),
    }
    return json.dumps(document, indent=2)


def sample_rows(sample: telemetry_pb2.Sample) -> list[Row]:
    """Return a sample GPU by GPU, unpacked from its columns; None: absent."""
    rows = list[Row]({} for _ in range(sample.gpu_count))
    for name in _COLUMNS:
        column = getattr(sample, name)
        values = iter(column.values)
        for index, row in enumerate(rows):
            row[name] = next(values) if column.present_mask >> index & 1 else None
    return rows


def format_sample(sample: telemetry_pb2.Sample) -> str:
    """Return one line a GPU; a dash marks a value that the driver did not report."""
    lines = ["\t".join(["GPU", "state", *_COLUMNS])]
    for index, row in enumerate(sample_rows(sample)):
        state = "lost" if sample.lost_mask >> index & 1 else "ok"
        cells = ["-" if value is None else f"{value:.6g}" for value in row.values()]
        lines.append("\t".join([str(index), state, *cells]))
    return "\n".join(lines)


def format_sample_json(facts: DriverFacts, sample: telemetry_pb2.Sample) -> str:
    """Return one JSON object; docs/probe.md lists the keys."""
    gpus = [
        {
            "index": index,
            "uuid": facts.gpus[index].uuid if index < len(facts.gpus) else None,
            "lost": bool(sample.lost_mask >> index & 1),
            **row,
        }
        for index, row in enumerate(sample_rows(sample))
    ]
    xids = [{"gpu_index": event.gpu_index, "code": event.code} for event in sample.xid_events]
    return json.dumps({"schema": JSON_SCHEMA, "gpus": gpus, "xid_events": xids}, indent=2)
