"""`roostctl top`: the cluster, live."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from roostctl.clients.calls import CallFailed
from roostctl.clients.operator import OperatorClient
from roostctl.commands.top_view import (
    QUEUE_COLUMNS,
    Moment,
    headline,
    job_marks,
    node_columns,
    queue,
    running,
    running_columns,
)
from roostctl.documents.top import top_document
from roostctl.options.common import Options, Seconds, json_option, pass_options
from roostctl.options.watch import PASSING
from roostctl.output.console import new_console, print_document, show
from roostctl.output.tables import Column, wide_listing

_LEGEND = "A, B, ...: GPUs of a job  . free  x closed  ! faulty"
_HEADINGS = 11  # lines that are no rows of a table


@click.command(epilog="Example: roostctl top --every 5")
@click.option(
    "--every",
    "every_s",
    type=Seconds(),
    default=2.0,
    show_default=True,
    help="Time between two frames.",
)
@click.option("--once", is_flag=True, help="Print one frame, all of it, and end.")
@json_option
@pass_options
def top(options: Options, every_s: float, once: bool, as_json: bool) -> None:
    """Watch nodes, GPUs and the queue.

    Shows which job holds each GPU, how busy it is, the jobs that run with their links, and why and
    until when the others wait. It shows as much as the terminal has lines for; Ctrl-C ends it.
    """
    with options.connect() as operator:
        moment = _ask(operator)
        if as_json:
            print_document(top_document(moment.status, list(moment.nodes), list(moment.jobs)))
            return
        console = new_console()
        if once or not console.is_terminal:
            show(console, *_frame(console, moment, None))
            return
        _watch(console, operator, moment, every_s)


def _watch(console: Console, operator: OperatorClient, moment: Moment, every_s: float) -> None:
    with Live(console=console, screen=True, auto_refresh=False) as live:
        try:
            while True:
                live.update(Group(*_frame(console, moment, console.height)), refresh=True)
                time.sleep(every_s)
                moment = _ask_again(operator, moment)
        except KeyboardInterrupt:
            return


def _ask(operator: OperatorClient) -> Moment:
    return Moment(operator.get_status(), operator.list_nodes(), operator.list_jobs(False))


def _ask_again(operator: OperatorClient, before: Moment) -> Moment:
    """Return the present moment; the one before, with the fault, while roostd is away."""
    try:
        return _ask(operator)
    except CallFailed as error:
        if error.code not in PASSING:
            raise
        return Moment(before.status, before.nodes, before.jobs, str(error))


def _frame(console: Console, moment: Moment, height: int | None) -> Iterator[RenderableType]:
    marks = job_marks(moment.jobs)
    tables: Sequence[tuple[str, Sequence[Column[Any]], Sequence[Any]]] = (
        ("Nodes", node_columns(marks), moment.nodes),
        ("Running", running_columns(marks), running(moment.jobs)),
        ("Waiting", QUEUE_COLUMNS, queue(moment.jobs)),
    )
    rows = _row_counts([len(items) for _, _, items in tables], height)
    yield headline(moment)
    for (title, columns, items), count in zip(tables, rows, strict=True):
        yield ""
        if not items:
            yield Text(f"{title}: none", "bold")
            continue
        yield from _table(console, title, columns, items, count)
    yield Text(_LEGEND, "dim")


def _table(
    console: Console, title: str, columns: Sequence[Column[Any]], items: Sequence[Any], count: int
) -> Iterator[RenderableType]:
    hidden = len(items) - count
    more = f" (the first {count} of {len(items)})" if hidden > 0 else f" ({len(items)})"
    yield Text(f"{title}{more}", "bold")
    if count:
        yield wide_listing(console, columns, items[:count])


def _row_counts(wanted: Sequence[int], height: int | None) -> list[int]:
    """Share a terminal's lines among the tables: each gets a third, and what others leave."""
    if height is None:
        return list(wanted)
    left, counts = max(height - _HEADINGS, len(wanted)), [0] * len(wanted)
    for rank, place in enumerate(sorted(range(len(wanted)), key=lambda place: wanted[place])):
        counts[place] = min(wanted[place], left // (len(wanted) - rank))
        left -= counts[place]
    return counts
