"""`roostctl waste`: GPU-hours that brought nothing, by day and user."""

import click
from rich.console import RenderableType

from roost_proto.v1 import waste_pb2 as pb
from roostctl.clients.waste import WasteClient
from roostctl.documents.waste import WasteDocument, waste_document
from roostctl.options.common import Options, json_option, pass_options
from roostctl.output.console import Cell, listing, new_console, print_document, prose, show
from roostctl.output.logins import login_of
from roostctl.output.quantities import ABSENT, duration, gibibytes, or_absent, percent, safe_text

_KINDS = ("HELD", "IDLE", "SPLIT", "NEIGHBOURS", "UNKNOWN", "UNREACHABLE", "HALF FREE", "FOREIGN")
_HEADS = ("DAY", "USER", *_KINDS)
_COLUMNS = (
    "held_gpu_h",
    "idle_gpu_h",
    "split_gpu_h",
    "neighbours_gpu_h",
    "unknown_gpu_h",
    "unreachable_gpu_h",
    "half_free_gpu_h",
    "foreign_gpu_h",
)
_FOREIGN_HEADS = ("NODE", "GPU", "GiB", "HELD BY", "PROCESS OF", "STARTED BY JOB", "FOR")
_FOREIGN_NOTE = (
    "Memory in use by no job that holds the GPU; nvidia-smi on the node names the process."
)


@click.command(epilog="Example: roostctl waste --days 7 --by user")
@click.option(
    "--days",
    "day_count",
    type=click.IntRange(1, 1_000),
    default=7,
    show_default=True,
    help="The newest so many days.",
)
@click.option(
    "--by",
    type=click.Choice(["day", "user"]),
    default="day",
    show_default=True,
    help="A line for each day and user, or the sum of the days for each user.",
)
@json_option
@pass_options
def waste(options: Options, day_count: int, by: str, as_json: bool) -> None:
    """Show GPU-hours that brought nothing.

    HELD by a user's jobs; of these IDLE, SPLIT from the other half of a linked pair, lost because
    NEIGHBOURS slow a job, or UNKNOWN for want of telemetry. UNREACHABLE GPUs are free without a CPU
    or memory beside them, HALF FREE ones without the other half of their pair. On FOREIGN ones
    processes of no job that holds them use memory; a second table lists those of now. These three
    belong to no user. Days are those of UTC.
    """
    with WasteClient(options.daemon, options.timeout_s) as client:
        found = client.get_waste(day_count)
    if by == "user":
        found = _by_user(found)
    if as_json:
        document: WasteDocument = waste_document(found)
        print_document(document)
        return
    console = new_console()
    table = listing(console, _HEADS, [_row(entry) for entry in found.entries])
    notes: list[Cell] = [prose(_summary(found), "dim")]
    if found.fault:
        notes.append(prose(f"Earlier sums are missing: {safe_text(found.fault)}.", "yellow"))
    foreign: list[RenderableType] = []
    if found.foreign:
        lines = [_foreign_row(one) for one in found.foreign]
        foreign = ["", listing(console, _FOREIGN_HEADS, lines), prose(_FOREIGN_NOTE, "yellow")]
    show(console, *([table] if found.entries else []), *notes, *foreign)


def _by_user(found: pb.GetWasteResponse) -> pb.GetWasteResponse:
    """Return the sums of all days, with their span as the day; the most idle user first."""
    days = [entry.day for entry in found.entries]
    span = f"{min(days)} to {max(days)}" if days and min(days) != max(days) else "".join(days[:1])
    sums: dict[int | None, pb.WasteEntry] = {}
    for entry in found.entries:
        user_id = entry.user_id if entry.HasField("user_id") else None
        summed = sums.setdefault(user_id, pb.WasteEntry(day=span, user_id=user_id))
        for column in _COLUMNS:
            setattr(summed, column, getattr(summed, column) + getattr(entry, column))
    entries = sorted(sums.values(), key=lambda entry: (-entry.idle_gpu_h, entry.user_id))
    return pb.GetWasteResponse(
        entries=entries,
        counted_s=found.counted_s,
        fault=found.fault,
        foreign=found.foreign,
    )


def _row(entry: pb.WasteEntry) -> list[Cell]:
    user = login_of(entry.user_id) if entry.HasField("user_id") else "(none)"
    return [entry.day, user, *(_hours(getattr(entry, column)) for column in _COLUMNS)]


def _foreign_row(one: pb.ForeignMemory) -> list[Cell]:
    return [
        safe_text(one.node),
        str(one.gpu_index),
        gibibytes(one.used_bytes),
        or_absent(one.held_by),
        login_of(one.user_id) if one.HasField("user_id") else ABSENT,
        str(one.slurm_job_id) if one.HasField("slurm_job_id") else ABSENT,
        duration(one.seen_for_s),
    ]


def _hours(gpu_h: float) -> str:
    if gpu_h <= 0:
        return ABSENT
    if gpu_h < 0.05:
        return "<0.1"
    return f"{gpu_h:.1f}" if gpu_h < 100 else f"{gpu_h:.0f}"


def _summary(found: pb.GetWasteResponse) -> str:
    held, idle, unknown = (
        sum(getattr(entry, column) for entry in found.entries)
        for column in ("held_gpu_h", "idle_gpu_h", "unknown_gpu_h")
    )
    if not found.entries:
        return f"No GPU-hours yet, counted for {duration(found.counted_s)}."
    text = f"GPU-hours, counted for {duration(found.counted_s)}."
    if held > 0:
        text += f" {percent(idle / held)} of {_hours(held)} held GPU-hours were idle"
        # Idle is what telemetry shows: without it 0 % would be read as a good figure.
        if unknown / held >= 0.005:
            text += f"; for {percent(unknown / held)} there was no telemetry"
        text += "."
    return text
