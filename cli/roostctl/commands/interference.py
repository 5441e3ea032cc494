"""`roostctl interference`: what the progress of jobs taught roostd of neighbours."""

from math import exp, log

import click

from roost_proto.v1 import interference_pb2 as pb
from roostctl.clients.interference import InterferenceClient
from roostctl.documents.interference import InterferenceDocument, interference_document
from roostctl.options.common import Options, json_option, pass_options
from roostctl.output.console import Cell, listing, new_console, print_document, prose, show
from roostctl.output.logins import login_of
from roostctl.output.quantities import ABSENT, counted, or_absent, safe_text

_ROW_HEADS = ("USER", "JOB", "BESIDE", "AT", "PREDICTED", "OBSERVED", "OFF BY", "REPORTS")
_PAIR_HEADS = ("USER", "MODEL", "BESIDE", "MEASURED", "CORRECTED", "RUNS", "SHARED")
_KIND_HEADS = ("USER", "JOB", "OFF BY", "REPORTS")


@click.command(epilog="Example: roostctl interference --last 5")
@click.option(
    "--last",
    "count",
    type=click.IntRange(1, 1_000),
    default=20,
    show_default=True,
    help="At most so many lines of each table.",
)
@json_option
@pass_options
def interference(options: Options, count: int, as_json: bool) -> None:
    """Show what the progress of jobs taught of neighbours.

    The first table has the kinds of jobs whose loss of speed was mispredicted most: BESIDE another
    kind, with the closest that both share, or at a kind of placement. PREDICTED and OBSERVED are of
    the newest report; OFF BY is the mean, shrunk towards 0 where there are few REPORTS, with its
    standard error. The second table has all kinds, the most reports first. A third one has the
    pairs on shared GPUs that runs have corrected: what the user's jobs of MODEL lose there, and
    whether the pair is SHARED still. Lines "estimated from activity" are of jobs that report no
    progress: a weak measure, which roostd takes where telemetry.activity_speed is on.
    """
    with InterferenceClient(options.daemon, options.timeout_s) as client:
        found = client.get_interference(count)
    if as_json:
        document: InterferenceDocument = interference_document(found)
        print_document(document)
        return
    console = new_console()
    parts = [prose(_summary(found), "dim")]
    if found.fault:
        parts.append(prose(f"Fault: {safe_text(found.fault)}.", "yellow"))
    rows = listing(console, _ROW_HEADS, [_row(row) for row in found.rows])
    kinds = listing(console, _KIND_HEADS, [_kind(kind) for kind in found.kinds])
    pairs = listing(console, _PAIR_HEADS, [_pair(pair) for pair in found.shared_pairs])
    filled = ((rows, found.rows), (kinds, found.kinds), (pairs, found.shared_pairs))
    tables = [table for table, content in filled if content]
    show(console, *tables, *parts)


def _row(row: pb.InterferenceRow) -> list[Cell]:
    beside = ABSENT
    if row.HasField("beside_user_id"):
        beside = f"{login_of(row.beside_user_id)} {or_absent(row.beside_job_name)}"
    return [
        login_of(row.user_id),
        or_absent(row.job_name),
        beside,
        or_absent(row.level),
        _lost(row.predicted),
        _lost(row.observed),
        _off_by(row.residual, row.error),
        _reports(row.report_count, row.from_activity),
    ]


def _kind(kind: pb.InterferenceKind) -> list[Cell]:
    return [
        login_of(kind.user_id),
        or_absent(kind.job_name),
        _off_by(kind.residual, kind.error),
        _reports(kind.report_count, kind.from_activity),
    ]


def _pair(pair: pb.SharedPair) -> list[Cell]:
    return [
        login_of(pair.user_id),
        or_absent(pair.model),
        or_absent(pair.beside),
        _lost(pair.measured),
        _lost(pair.corrected),
        str(pair.run_count),
        "no more" if pair.is_bad else "yes",
    ]


def _lost(log_slowdown: float) -> str:
    """Return the speed lost: 0.105 is 10%. Twice as fast is the most that is shown of a gain."""
    return f"{100 * (1 - exp(min(-log_slowdown, log(2)))):.0f}%"


def _reports(count: float, from_activity: bool) -> str:
    return f"{count:.0f}, estimated from activity" if from_activity else f"{count:.0f}"


def _off_by(residual: float, error: float) -> str:
    """Return a mean in percent of speed, with its standard error; + is slower than predicted."""
    return f"{100 * residual:+.0f} ± {100 * error:.0f}%"


def _summary(found: pb.GetInterferenceResponse) -> str:
    if not found.model:
        return "No job has reported its progress yet; docs/interference.md shows how jobs do so."
    name = safe_text(found.model)
    learned = f"{counted(found.row_count, 'row')} of {counted(found.kind_count, 'kind')} learned."
    shown = len(found.rows), len(found.kinds)
    if shown[0] < found.row_count or shown[1] < found.kind_count:
        learned += f" Shown: {counted(shown[0], 'row')} and {counted(shown[1], 'kind')} (--last)."
    if not found.decides:
        return f"{name} predicts, and decides nothing (policy.model). {learned}"
    corrected = counted(found.correcting_count, "row")
    return f"{name} predicts and decides, corrected by {corrected}. {learned}"
