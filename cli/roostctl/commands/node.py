"""`roostctl node NAME`: one node and each of its GPUs."""

import click
from rich.text import Text

from roost_proto.v1 import operator_pb2 as pb
from roostctl.commands.nodes import sample_age, state, strip
from roostctl.documents.nodes import OneNodeDocument, node_document
from roostctl.options.common import Options, json_option, pass_options
from roostctl.options.completion import node_names
from roostctl.output.console import Cell, listing, new_console, pairs, print_document, show
from roostctl.output.quantities import ABSENT, gibibytes, or_absent, percent, rounded

_HEADS = ("GPU", "JOB", "SM", "MEM ACT", "GiB", "POWER", "TEMP", "MODEL", "UUID", "FAULT")


@click.command(epilog="Example: roostctl node gpu07")
@click.argument("name", shell_complete=node_names)
@json_option
@pass_options
def node(options: Options, name: str, as_json: bool) -> None:
    """Show one node and its GPUs.

    Tells its state, which job holds each GPU and how busy it is.
    """
    with options.connect() as operator:
        found = operator.get_node(name)
    if as_json:
        document: OneNodeDocument = {"schema": "roost.node/1", "node": node_document(found)}
        print_document(document)
        return
    console = new_console()
    rows = [_row(gpu, found.usable) for gpu in sorted(found.gpus, key=lambda gpu: gpu.index)]
    show(console, pairs(_facts(found)), "", listing(console, _HEADS, rows))


def _facts(node: pb.Node) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [
        ("Node", or_absent(node.name)),
        ("State", _state(node)),
        ("Rack", or_absent(node.rack)),
        ("Partitions", or_absent(",".join(node.partitions))),
        ("GPUs", strip(node)),
        ("CPUs", f"{node.cpu_free_count} of {node.cpu_count} free"),
        (
            "Memory",
            f"{gibibytes(node.memory_free_bytes)} of {gibibytes(node.memory_bytes)} GiB free",
        ),
        ("Last sample", _sample(node)),
    ]
    return facts + [("Problem", Text(or_absent(problem), "red")) for problem in node.problems]


def _state(node: pb.Node) -> Cell:
    text = state(node)
    return text if node.usable else text.append(" (Slurm starts no jobs here now)")


def _sample(node: pb.Node) -> str:
    return f"{sample_age(node)} ago" if node.HasField("sample_age_s") else "no probe has reported"


def _row(gpu: pb.NodeGpu, is_usable: bool) -> tuple[Cell, ...]:
    return (
        str(gpu.index),
        _holder(gpu, is_usable),
        percent(gpu.sm_frac if gpu.HasField("sm_frac") else None),
        percent(gpu.memory_activity_frac if gpu.HasField("memory_activity_frac") else None),
        _memory(gpu),
        rounded(gpu.power_w if gpu.HasField("power_w") else None, "W"),
        rounded(gpu.temperature_c if gpu.HasField("temperature_c") else None, "C"),
        or_absent(gpu.model),
        or_absent(gpu.uuid),
        Text(or_absent(gpu.fault), "red" if gpu.fault else ""),
    )


def _holder(gpu: pb.NodeGpu, is_usable: bool) -> Text:
    if gpu.free and not gpu.fault:
        return Text("free", "green") if is_usable else Text("closed", "red")
    return Text(or_absent(gpu.job_id), "blue")


def _memory(gpu: pb.NodeGpu) -> str:
    used = gibibytes(gpu.memory_used_bytes if gpu.HasField("memory_used_bytes") else None)
    total = gibibytes(gpu.memory_bytes if gpu.HasField("memory_bytes") else None)
    return ABSENT if used == total == ABSENT else f"{used}/{total}"
