"""`roostctl eta`: when jobs are expected to start and to end."""

import click

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.eta import EtaDocument, eta_document
from roostctl.documents.values import job_state_word
from roostctl.options.common import Options, json_option, pass_options
from roostctl.options.completion import job_ids
from roostctl.output.console import Cell, listing, new_console, print_document, prose, show
from roostctl.output.quantities import ABSENT, counted, duration, percent, safe_text

_HEADS = ("JOB", "GPUS", "STARTS IN", "BETWEEN", "ENDS IN", "BETWEEN")


@click.command(epilog="Example: roostctl eta 4711")
@click.argument("job_id", metavar="[ID]", required=False, shell_complete=job_ids)
@json_option
@pass_options
def eta(options: Options, job_id: str | None, as_json: bool) -> None:
    """Show when a job is expected to start and to end.

    Without ID all waiting jobs are listed, the first to start at the top. A time lies between its
    bounds with the probability that the last line names. roostd plays the queue forward with run
    times of jobs like those that wait.
    """
    with options.connect() as operator:
        found = operator.get_eta(job_id or "")
    if as_json:
        document: EtaDocument = eta_document(found)
        print_document(document)
        return
    console = new_console()
    if job_id:
        show(console, *(prose(_sentence(one, found)) for one in found.etas), *_notes(found))
        return
    table = listing(console, _HEADS, [_row(one) for one in found.etas])
    show(console, *([table] if found.etas else []), prose(_summary(found), "dim"), *_notes(found))


def about(seconds: float | None) -> str:
    """Round to two digits: a forecast has no more."""
    if seconds is None:
        return "later"
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s" if seconds < 10 else f"{round(seconds, -1):.0f} s"
    if seconds < 5_400:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3_600:
        hours = seconds / 3_600
        return f"{hours:.1f} h" if hours < 9.95 else f"{hours:.0f} h"
    days = seconds / 86_400
    return f"{days:.1f} d" if days < 9.95 else f"{days:.0f} d"


def _sentence(one: pb.Eta, found: pb.GetEtaResponse) -> str:
    parts = [f"{name} {in_words(time, found.interval_frac)}" for name, time in _times(one)]
    state = job_state_word(one.state)
    return f"Job {safe_text(one.job_id)} ({state}) " + ", ".join(parts) + "."


def _times(one: pb.Eta) -> list[tuple[str, pb.ExpectedTime]]:
    ends = [("ends", one.end)]
    return [("starts", one.start), *ends] if one.HasField("start") else ends


def in_words(time: pb.ExpectedTime, interval_frac: float) -> str:
    """Return an expected time: "in about 12 min (80%: 4 to 35 min)"."""
    if not time.HasField("median_s"):
        return f"in {about(time.low_s)} at the earliest, how late is not known"
    return f"in about {about(time.median_s)} ({percent(interval_frac)}: {bounds(time)})"


def bounds(time: pb.ExpectedTime) -> str:
    """Return the bounds, "4 to 35 min"."""
    low = about(time.low_s)
    if not time.HasField("high_s"):
        return f"{low} or later"
    high = about(time.high_s)
    number, _, unit = low.partition(" ")
    return f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}"


def _row(one: pb.Eta) -> list[Cell]:
    start, end = one.start, one.end
    return [safe_text(one.job_id), str(one.gpu_count), *_cells(start), *_cells(end)]


def _cells(time: pb.ExpectedTime) -> tuple[Cell, Cell]:
    middle = about(time.median_s) if time.HasField("median_s") else ABSENT
    return middle, bounds(time)


def _summary(found: pb.GetEtaResponse) -> str:
    text = (
        f"{counted(len(found.etas), 'waiting job')}; {percent(found.interval_frac)} of times lie "
        f"between their bounds; the queue was played {found.play_count} times, "
        f"{duration(found.age_s)} ago."
    )
    if found.missing_count:
        text += f" {counted(found.missing_count, 'job')} came later."
    return text


def _notes(found: pb.GetEtaResponse) -> list[Cell]:
    """Return what makes the forecast doubtful."""
    if not found.fault:
        return []
    stale = f"Stale: this is {duration(found.age_s)} old, because {safe_text(found.fault)}."
    return [prose(stale, "yellow")]
