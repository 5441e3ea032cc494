"""`roostctl topology NAME`: a link matrix as `nvidia-smi topo -m` prints it, and each GPU's holder.

The text can be fed to everything that reads that format, roost_engine.domain.topology included.
"""

from collections.abc import Iterator, Sequence

import click
from rich.text import Text

from roost_engine.domain.topology import LEVEL_SYMBOLS, Level, Link
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import telemetry_pb2
from roostctl.documents.topology import gpu_of, topology_document
from roostctl.options.common import Options, json_option, pass_options
from roostctl.options.completion import node_names
from roostctl.output.console import new_console, print_document, show
from roostctl.output.quantities import ABSENT, safe_text

_SELF = "X"
_MEANINGS = {
    "SYS": "across the link between CPU sockets",
    "NODE": "across PCIe host bridges of one NUMA node",
    "PHB": "through one PCIe host bridge",
    "PXB": "through several PCIe switches",
    "PIX": "through one PCIe switch at most",
}
Row = tuple[Text, ...]


@click.command(epilog="Example: roostctl topology gpu07")
@click.argument("name", shell_complete=node_names)
@json_option
@pass_options
def topology(options: Options, name: str, as_json: bool) -> None:
    """Show how the GPUs of a node are linked.

    Prints the matrix of `nvidia-smi topo -m`, and the job that holds each GPU.
    """
    with options.connect() as operator:
        node = operator.get_node(name)
        found = operator.get_topology(name)
    if as_json:
        print_document(topology_document(found, node))
        return
    show(new_console(), *_lines(found, node), wrap=False)


def _lines(topology: pb.Topology, node: pb.Node) -> Iterator[Text]:
    gpus = sorted(topology.gpus, key=lambda gpu: gpu.index)
    nic_names = [f"NIC{position}" for position in range(len(topology.nics))]
    devices = [f"GPU{gpu.index}" for gpu in gpus] + nic_names
    heads = ("", *devices, "CPU Affinity", "NUMA Affinity", "STATE")
    rows: list[Row] = [tuple(Text(head, "bold") for head in heads)]
    symbols = _symbols(topology)
    for gpu in gpus:
        links = [symbols.get((gpu.index, other.index), ABSENT) for other in gpus]
        nics = [_nic_symbol(nic, gpu.index) for nic in topology.nics]
        numa = str(gpu.numa_node) if gpu.HasField("numa_node") else ABSENT
        affinity = _one_word(gpu.cpu_affinity)
        texts = [f"GPU{gpu.index}", *links, *nics, affinity, numa]
        rows.append((*map(Text, texts), _state(gpu_of(node, gpu))))
    for position, nic in enumerate(topology.nics):
        # The probe measures NICs against GPUs only.
        between = [_SELF if other == position else ABSENT for other in range(len(nic_names))]
        links = [_nic_symbol(nic, gpu.index) for gpu in gpus]
        numa = str(nic.numa_node) if nic.HasField("numa_node") else ABSENT
        rows.append(tuple(map(Text, (nic_names[position], *links, *between, ABSENT, numa, ABSENT))))
    yield from _aligned(rows)
    yield Text()
    yield from _legend(topology, {cell.plain for row in rows[1:] for cell in row})


def _symbols(topology: pb.Topology) -> dict[tuple[int, int], str]:
    symbols = {(gpu.index, gpu.index): _SELF for gpu in topology.gpus}
    for link in topology.links:
        symbol = _symbol(link.level, link.nvlink_count)
        symbols[link.a, link.b] = symbols[link.b, link.a] = symbol
    return symbols


def _symbol(level: int, nvlink_count: int = 0) -> str:
    if level in LEVEL_SYMBOLS:
        return Link(Level(level), nvlink_count).symbol
    return f"NV{nvlink_count}" if nvlink_count else ABSENT


def _nic_symbol(nic: telemetry_pb2.Nic, gpu_index: int) -> str:
    return _symbol(nic.gpu_levels[gpu_index]) if gpu_index < len(nic.gpu_levels) else ABSENT


def _one_word(affinity: str) -> str:
    return safe_text(affinity).replace(" ", "") or ABSENT


def _state(entry: pb.NodeGpu | None) -> Text:
    if entry is None:
        return Text(ABSENT)
    if entry.fault:
        return Text(f"faulty: {safe_text(entry.fault)}", "bold red")
    if entry.free:
        return Text("free", "green")
    return Text(f"job {safe_text(entry.job_id)}" if entry.job_id else "busy", "blue")


def _aligned(rows: Sequence[Row]) -> Iterator[Text]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        line = Text()
        for cell, width in zip(row, widths, strict=True):
            line.append(cell).append(" " * (width - len(cell) + 2))
        yield line


def _legend(topology: pb.Topology, used: set[str]) -> Iterator[Text]:
    yield Text("Legend:")
    if any(symbol.startswith("NV") for symbol in used):
        through = " through NVSwitch" if any(link.nvswitch for link in topology.links) else ""
        yield Text(f"  NV#   that many NVLink lanes{through}")
    for symbol, meaning in reversed(_MEANINGS.items()):
        if symbol in used:
            yield Text(f"  {symbol:<4}  {meaning}")
    for position, nic in enumerate(topology.nics):
        yield Text(f"  NIC{position}: {safe_text(nic.name)}")
