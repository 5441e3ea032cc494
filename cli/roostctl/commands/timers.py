"""`roostctl timers`: how long jobs wait for better GPUs, and setting that by hand."""

import click
from rich.text import Text

from roost_proto.v1 import operator_pb2 as pb
from roostctl.clients.operator import AdminClient
from roostctl.documents.timers import ChangedTimerDocument, TimersDocument, timer_document
from roostctl.options.admin import admin_address, admin_option, caller_name
from roostctl.options.common import Options, Seconds, json_option, pass_options
from roostctl.output.console import Cell, listing, new_console, print_document, prose, show
from roostctl.output.quantities import ABSENT, duration, or_absent, percent, safe_text

_HEADS = ("CLASS", "NODE", "RACK", "WAITS", "CENSORED", "TUNED", "DALLY")


@click.group(
    invoke_without_command=True,
    epilog="Example: roostctl timers --json",
)
@json_option
@click.pass_context
@pass_options
def timers(options: Options, ctx: click.Context, as_json: bool) -> None:
    """Show how long jobs wait for better GPUs.

    CLASS is GPUs and sensitivity; NODE and RACK are how long such a job waits for one node at most,
    and before it goes across racks. WAITS counts the waits that ended, in brackets those that were
    for something better than was offered; CENSORED of these ended without it. DALLY is what Dally
    would make of the same waits.
    """
    if ctx.invoked_subcommand is not None:
        return
    with options.connect() as operator:
        found = operator.list_timers()
    if as_json:
        document: TimersDocument = {
            "schema": "roost.timers/1",
            "gate": or_absent(found.gate),
            "timers": [timer_document(timer) for timer in found.timers],
        }
        print_document(document)
        return
    console = new_console()
    table = listing(console, _HEADS, [_row(timer) for timer in found.timers])
    show(console, *([table] if found.timers else []), prose(_summary(found), "dim"))


@timers.command(epilog="Example: roostctl timers pin 8/high 300")
@click.argument("name", metavar="CLASS")
@click.argument("seconds", type=Seconds(30 * 86400, from_zero=True))
@admin_option
@json_option
@pass_options
def pin(options: Options, name: str, seconds: float, admin: str, as_json: bool) -> None:
    """Set both timers of a class by hand, in seconds; for administrators.

    The gate's caps hold all the same. 0: such jobs never wait.
    """
    address = admin_address(options, admin)
    with AdminClient(address, options.timeout_s) as administrator:
        timer = administrator.pin_timer(name, seconds, caller_name())
    if as_json:
        print_document(_document(timer))
        return
    show(new_console(), prose(f"{safe_text(timer.name)} is pinned to {duration(timer.pinned_s)}."))


@timers.command(epilog="Example: roostctl timers unpin 8/high")
@click.argument("name", metavar="CLASS")
@admin_option
@json_option
@pass_options
def unpin(options: Options, name: str, admin: str, as_json: bool) -> None:
    """Let the gate tune the timers of a class again; for administrators."""
    address = admin_address(options, admin)
    with AdminClient(address, options.timeout_s) as administrator:
        timer = administrator.unpin_timer(name, caller_name())
    if as_json:
        print_document(_document(timer))
        return
    timers_text = f"NODE {duration(timer.node_timer_s)}, RACK {duration(timer.rack_timer_s)}"
    show(new_console(), prose(f"{safe_text(timer.name)} is tuned again: {timers_text}."))


def _document(timer: pb.Timer) -> ChangedTimerDocument:
    return {"schema": "roost.timer/1", "timer": timer_document(timer)}


def _row(timer: pb.Timer) -> tuple[Cell, ...]:
    is_pinned = timer.HasField("pinned_s")
    style = "yellow" if is_pinned else ""
    tuned = duration(timer.tuned_ago_s) + " ago" if timer.HasField("tuned_ago_s") else ABSENT
    return (
        or_absent(timer.name),
        Text(duration(timer.node_timer_s), style),
        Text(duration(timer.rack_timer_s), style),
        f"{timer.sample_count} ({timer.waited_count})",
        percent(timer.censored_frac if timer.HasField("censored_frac") else None),
        "pinned" if is_pinned else tuned,
        f"{duration(timer.dally_node_timer_s)}, {duration(timer.dally_rack_timer_s)}",
    )


def _summary(found: pb.ListTimersResponse) -> str:
    if found.timers:
        return f"The gate is {safe_text(found.gate)}."
    if found.gate == "delay":
        return "The gate is delay. No job has waited or could have so far."
    return f"The gate is {safe_text(found.gate)}: it has no timers. See gate.kind in roostd.yaml."
