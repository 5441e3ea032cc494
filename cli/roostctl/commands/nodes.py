"""`roostctl nodes`: all nodes, a line each."""

import click
from rich.text import Text

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.nodes import NodesDocument, free_count, node_document
from roostctl.options.common import Options, json_option, pass_options, watch_option
from roostctl.options.watch import repeat
from roostctl.output.console import Cell, listing, new_console, print_document, prose, show
from roostctl.output.quantities import (
    ABSENT,
    counted,
    duration,
    gibibytes,
    mean,
    or_absent,
    percent,
)

_HEADS = ("NODE", "STATE", "GPUS", "FREE", "SM", "GPU GiB", "CPUS", "SEEN", "PROBLEMS")
LEGEND = "GPUS: . free  # busy  ! faulty  x closed.  FREE, CPUS: free/all.  GPU GiB: used/all."


@click.command(epilog="Example: roostctl nodes --json | jq '.nodes[] | select(.usable).name'")
@json_option
@watch_option
@pass_options
def nodes(options: Options, as_json: bool, watch_s: float | None) -> None:
    """List the GPU nodes.

    Shows which GPUs are free, busy or faulty, and how loaded they are.
    """
    with options.connect() as operator:

        def frame() -> None:
            found = operator.list_nodes()
            if as_json:
                document: NodesDocument = {
                    "schema": "roost.nodes/1",
                    "nodes": [node_document(node) for node in found],
                }
                print_document(document, compact=watch_s is not None)
                return
            console = new_console()
            summary = prose(f"{_summary(found)}  {LEGEND if found else ''}".rstrip(), "dim")
            table = listing(console, _HEADS, [_row(node) for node in found])
            show(console, *([table] if found else []), summary, clear=watch_s is not None)

        repeat(frame, watch_s)


def _row(node: pb.Node) -> tuple[Cell, ...]:
    return (
        or_absent(node.name),
        state(node),
        strip(node),
        f"{free_count(node)}/{len(node.gpus)}",
        percent(mean(gpu.sm_frac if gpu.HasField("sm_frac") else None for gpu in node.gpus)),
        _gpu_memory(node),
        f"{node.cpu_free_count}/{node.cpu_count}",
        sample_age(node),
        or_absent("; ".join(node.problems)),
    )


def strip(node: pb.Node) -> Text:
    """One mark a GPU, in index order."""
    text = Text()
    for gpu in sorted(node.gpus, key=lambda gpu: gpu.index):
        if gpu.fault:
            text.append("!", "bold red")
        elif gpu.free:
            text.append(*((".", "green") if node.usable else ("x", "red")))
        else:
            text.append("#", "blue")
    return text if text.plain else Text(ABSENT)


def state(node: pb.Node) -> Text:
    """Slurm's state, red where the node may not be used."""
    return Text(or_absent(node.slurm_state), "" if node.usable else "red")


def sample_age(node: pb.Node) -> str:
    """Return the age of the newest sample."""
    if not node.HasField("sample_age_s"):
        return "no probe"
    return duration(node.sample_age_s)


def _gpu_memory(node: pb.Node) -> str:
    known = [
        gpu
        for gpu in node.gpus
        if gpu.HasField("memory_used_bytes") and gpu.HasField("memory_bytes")
    ]
    if not known:
        return ABSENT
    used, total = (
        sum(gpu.memory_used_bytes for gpu in known),
        sum(gpu.memory_bytes for gpu in known),
    )
    return f"{gibibytes(used)}/{gibibytes(total)}"


def _summary(found: list[pb.Node]) -> str:
    if not found:
        return "No nodes with GPUs."
    gpu_count = sum(len(node.gpus) for node in found)
    free = sum(map(free_count, found))
    return (
        f"{counted(len(found), 'node')}, {counted(gpu_count, 'GPU')}, {free} free on usable nodes."
    )
