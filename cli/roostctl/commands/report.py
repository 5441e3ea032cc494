"""`roostctl report`: what Roost has gained, or would have, from the journal."""

import re
import time
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias

import click
import grpc
from rich.text import Text

from roost_engine.domain.errors import JournalError
from roost_formats.report.document import report_document
from roost_formats.report.figures import Estimate, GroupFigures, GroupPair, ReportFigures
from roostctl.clients.calls import CallFailed
from roostctl.commands.report_page import report_page
from roostctl.output.console import Cell, listing, new_console, pairs, print_document, prose, show
from roostctl.output.logins import login_of
from roostctl.output.quantities import ABSENT, counted, duration, safe_text
from roostctl.output.tables import Column, wide_listing

DEFAULT_JOURNAL = Path("/var/lib/roost")
_UNITS_S = {"h": 3_600, "d": 86_400, "w": 604_800}
_MOST_USERS = 10
_GROUP_HEADS = ("MODE", "JOBS", "GPU-HOURS", "SAME GPUS", "LINKS", "BESIDE", "GAIN")
_Row: TypeAlias = tuple[str, ...]
_STAMP = "%Y-%m-%d %H:%M"


def _span(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """Return the seconds of a time such as 12h, 7d or 2w."""
    match = re.fullmatch(r"(\d{1,4})([hdw])", value)
    if match is None or not int(match[1]):
        raise click.BadParameter(f"{value!r} is not a time; want 12h, 7d or 2w")
    return float(int(match[1]) * _UNITS_S[match[2]])


@click.command(epilog="Example: roostctl report --last 7d --html report.html")
@click.option(
    "--last",
    "last_s",
    metavar="TIME",
    callback=_span,
    default="7d",
    show_default=True,
    help="The jobs that ended in this time: 12h, 7d, 2w.",
)
@click.option(
    "--journal",
    "journals",
    type=click.Path(path_type=Path),
    multiple=True,
    default=(DEFAULT_JOURNAL,),
    show_default=True,
    help="roostd's journal, or the folder that has it; may be repeated.",
)
@click.option(
    "--html", "page", type=click.Path(path_type=Path, dir_okay=False), help="Also write a page."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON; docs/roostctl.md has the schema."
)
def report(last_s: float, journals: Sequence[Path], page: Path | None, as_json: bool) -> None:
    """Tell what Roost has gained, or would have.

    Compares for each job that has ended what Roost chose with what Slurm did: places, links and
    starts, by partition and user, with 95 % intervals. Reads the journal itself, roostd need not
    run. In modes shadow and advise the comparison is with this Slurm as it ran; in enforce with
    the GPUs that plain Slurm takes on the same nodes.
    """
    until_s = time.time()
    since_s = until_s - last_s
    try:
        figures = _read(journals, since_s, until_s)
    except JournalError as error:
        raise CallFailed(grpc.StatusCode.FAILED_PRECONDITION, str(error)) from error
    if page is not None:
        try:
            page.write_text(report_page(figures), encoding="utf-8")
        except OSError as error:
            why = f"{page}: {error.strerror}"
            raise CallFailed(grpc.StatusCode.FAILED_PRECONDITION, why) from error
    if as_json:
        print_document(report_document(figures))
        return
    console = new_console()
    show(console, *_sections(figures))


def _read(journals: Sequence[Path], since_s: float, until_s: float) -> ReportFigures:
    # Here: numpy takes as long to import as all other commands take to run.
    from roost_formats.report.reading import read_report

    return read_report(journals, since_s, until_s)


def _sections(found: ReportFigures) -> Iterator[Any]:
    begin, end = (
        time.strftime(_STAMP, time.localtime(at_s)) for at_s in (found.since_s, found.until_s)
    )
    yield Text(f"{counted(found.job_count, 'job')} that ended from {begin} to {end}", "bold")
    if not found.job_count:
        yield prose("The journal has no job of this time: let roostd run for a while.")
        return
    if found.watched is not None:
        yield ""
        yield Text("Watched: Slurm chose the GPUs (modes shadow and advise)", "bold")
        yield pairs(list(_watched(found.watched)))
    if found.enforced is not None:
        yield ""
        yield Text("Enforced: Roost chose the GPUs", "bold")
        yield pairs(list(_enforced(found.enforced)))
    yield from _tables(found)


def _watched(found: GroupFigures) -> Iterator[tuple[str, Cell]]:
    yield "Jobs", _jobs_line(found)
    yield "Same GPUs", f"{share(found.same_frac)} of {found.chosen_count}"
    yield (
        "Links",
        f"Slurm's {share(found.real_link_frac)} of the best possible, Roost's"
        f" {share(found.planned_link_frac)}: {points(found.planned_gain_frac)}",
    )
    yield from _starts(found, "would have been")
    yield "GPU-hours", f"{_waiting(found)}; {_running(found)}"


def _enforced(found: GroupFigures) -> Iterator[tuple[str, Cell]]:
    yield "Jobs", _jobs_line(found)
    yield "As chosen", f"{share(found.same_frac)} of {found.chosen_count}"
    yield (
        "Links",
        f"{share(found.real_link_frac)} of the best possible; plain Slurm takes"
        f" {share(found.stock_link_frac)} on the same nodes: {points(found.stock_gain_frac)}",
    )


def _jobs_line(found: GroupFigures) -> str:
    hours_run = _amount(found.gpu_hours)
    return f"{found.job_count}, of which {found.started_count} ran, {hours_run} GPU-hours"


def _starts(found: GroupFigures, would: str) -> Iterator[tuple[str, Cell]]:
    as_they_were = found.chosen_count - found.sooner_count
    sooner = f"{found.sooner_count} {would} sooner"
    if found.sooner_s.value is not None:
        sooner += f", by {duration(found.sooner_s.value)} in the mean"
    yield "Starts", f"{sooner}; {as_they_were} as they were; {found.later_count} later"


def _waiting(found: GroupFigures) -> str:
    if not found.waiting_gpu_hours.value:
        return "no waiting spared"
    return f"{hours(found.waiting_gpu_hours)} of waiting spared"


def _running(found: GroupFigures) -> str:
    if found.running_gpu_hours.value is None:
        return "of running not known (no policy in effect expects speeds)"
    return f"{hours(found.running_gpu_hours)} of running spared, by expected speeds"


def _tables(found: ReportFigures) -> Iterator[Any]:
    console = new_console()
    if found.limits:
        yield ""
        yield Text("Limits of Slurm's that kept jobs waiting", "bold")
        rows = [(one.limit, str(one.job_count), duration(one.wait_s)) for one in found.limits]
        yield listing(console, ("LIMIT", "JOBS", "WAITED"), rows)
    yield ""
    yield wide_listing(console, _columns("PARTITION"), list(_rows(found.partitions)))
    yield ""
    users = [
        GroupPair(login_of(int(one.name)), one.watched, one.enforced)
        for one in found.users[:_MOST_USERS]
    ]
    yield wide_listing(console, _columns("USER"), list(_rows(users)))
    if len(found.users) > _MOST_USERS:
        yield prose(f"and {counted(len(found.users) - _MOST_USERS, 'more user')}", "dim")
    if found.left:
        yield ""
        yield Text("Left to Slurm", "bold")
        left = [(counted(count, "job"), safe_text(reason)) for reason, count in found.left]
        yield pairs(left)
    yield prose(
        "Intervals hold 95 %, by a bootstrap over users and days. LINKS are those that the jobs"
        " got; BESIDE are Roost's where it watched, and plain Slurm's where it chose.",
        "dim",
    )


def _columns(noun: str) -> Sequence[Column[_Row]]:
    """Return the columns of a table of groups; the least important go first."""
    ranks = {"GPU-HOURS": 1, "BESIDE": 2, "SAME GPUS": 3}
    return [
        Column(head, itemgetter(place), ranks.get(head))
        for place, head in enumerate((noun, *_GROUP_HEADS))
    ]


def _rows(groups: Sequence[GroupPair]) -> Iterator[_Row]:
    for group in groups:
        for mode, found in (("watched", group.watched), ("enforced", group.enforced)):
            if found is None:
                continue
            is_watched = mode == "watched"
            yield (
                safe_text(group.name) or ABSENT,
                mode,
                str(found.job_count),
                _amount(found.gpu_hours),
                share(found.same_frac),
                share(found.real_link_frac),
                share(found.planned_link_frac if is_watched else found.stock_link_frac),
                points(found.planned_gain_frac if is_watched else found.stock_gain_frac),
            )


def share(found: Estimate) -> str:
    """Return a fraction: 61%."""
    return ABSENT if found.value is None else f"{found.value:.0%}"


def points(found: Estimate) -> str:
    """Return a difference of fractions, with its interval: +26 points (24 to 28)."""
    if found.value is None:
        return ABSENT
    if found.low is None or found.high is None:
        return f"{found.value * 100:+.0f} points"
    low, high = found.low * 100, found.high * 100
    return f"{found.value * 100:+.0f} points ({low:.0f} to {high:.0f})"


def hours(found: Estimate) -> str:
    """Return hours with their interval: 31 (20 to 44)."""
    if found.value is None:
        return ABSENT
    if found.low is None or found.high is None:
        return f"{found.value:,.1f}"
    return f"{found.value:,.1f} ({found.low:,.1f} to {found.high:,.1f})"


def _amount(gpu_hours: float) -> str:
    return f"{gpu_hours:,.0f}" if gpu_hours >= 10 else f"{gpu_hours:.1f}"
