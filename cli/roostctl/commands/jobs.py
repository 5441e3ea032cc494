"""`roostctl jobs`: the jobs that ask for GPUs, a line each."""

from collections.abc import Sequence
from functools import cache

import click
from rich.text import Text

from roost_proto.v1 import operator_pb2 as pb
from roostctl.commands.eta import about
from roostctl.documents.jobs import JobsDocument, job_document
from roostctl.documents.values import job_state_word
from roostctl.options.common import Options, json_option, pass_options, watch_option
from roostctl.options.job_filter import JobFilter, filter_options
from roostctl.options.watch import repeat
from roostctl.output.console import new_console, print_document, prose, show
from roostctl.output.logins import login
from roostctl.output.quantities import ABSENT, counted, duration, index_list, node_list, or_absent
from roostctl.output.tables import Column, wide_listing

_STYLES = {
    "waiting": "yellow",
    "clearing": "yellow",
    "placing": "cyan",
    "running": "green",
    "stopping": "red",
    "let_go": "dim",
}
_IN_WORDS = {"let_go": "left to Slurm"}


@click.command(epilog="Example: roostctl jobs --all --json | jq '.jobs[] | .link_score'")
@click.option("--all", "include_ended", is_flag=True, help="Also jobs that have ended.")
@filter_options
@json_option
@watch_option
@pass_options
def jobs(
    options: Options,
    include_ended: bool,
    as_json: bool,
    watch_s: float | None,
    job_filter: JobFilter,
) -> None:
    """List the jobs that ask for GPUs.

    Shows their state, their place and why they wait.
    POSITION is where a waiting job is in the queue, RUN TIME how long it is expected to run.
    A place is busy while the job waits in Slurm for GPUs that others hold.
    LINKS is the link score of a job's GPUs and the best that any set of this size could have.
    A narrow terminal shows fewer columns, and the reason below; `roostctl job ID` shows all.
    Filters may be repeated, or list several values with commas.
    """
    with options.connect() as operator:

        def frame() -> None:
            found = job_filter.of(operator.list_jobs(include_ended or "ended" in job_filter.states))
            if as_json:
                document: JobsDocument = {
                    "schema": "roost.jobs/1",
                    "jobs": [job_document(job) for job in found],
                }
                print_document(document, compact=watch_s is not None)
                return
            console = new_console()
            table = wide_listing(console, _COLUMNS, found)
            summary = prose(_summary(found), "dim")
            show(console, *([table] if found else []), summary, clear=watch_s is not None)

        repeat(frame, watch_s)


def user(job: pb.Job) -> str:
    """Whose it is."""
    return login(job)


def state(job: pb.Job) -> Text:
    """Return the state in words."""
    return _state_text(job.state)


@cache
def _state_text(number: int) -> Text:
    word = job_state_word(number) or ABSENT
    return Text(_IN_WORDS.get(word, word), _STYLES.get(word, ""))


def position(job: pb.Job) -> str:
    """Return where a job is among those that wait: 2/14."""
    return f"{job.turn.position}/{job.turn.of_count}" if job.HasField("turn") else ABSENT


def run_time(job: pb.Job) -> str:
    """Return how long a waiting job is expected to run."""
    return about(job.expected_run.median_s) if job.HasField("expected_run") else ABSENT


def links(job: pb.Job) -> str:
    """Link score over the best possible."""
    if not job.HasField("link_score"):
        return ABSENT
    best = str(job.best_link_score) if job.HasField("best_link_score") else ABSENT
    return f"{job.link_score}/{best}"


def place(shares: Sequence[pb.NodeAllocation]) -> str:
    """Format a placement; nodes with equal indices share one entry: a,b:0-3 c:4,5."""
    if len(shares) == 1:
        return f"{node_list((shares[0].node,))}:{index_list(shares[0].gpu_indices)}"
    by_indices: dict[tuple[int, ...], list[str]] = {}
    for share in shares:
        by_indices.setdefault(tuple(sorted(share.gpu_indices)), []).append(share.node)
    groups = (f"{node_list(nodes)}:{index_list(key)}" for key, nodes in by_indices.items())
    return " ".join(groups) or ABSENT


def where(job: pb.Job) -> str:
    """Format the GPUs of a job: those that it has, waits for in Slurm, or is about to get."""
    if job.allocated:
        return place(job.allocated)
    if job.HasField("standing"):
        likely = ", likely" if job.standing.slurm_chooses_gpus else ""
        return f"{place(job.standing.shares)} (busy{likely})"
    return planned(job)


def planned(job: pb.Job) -> str:
    """Format the GPUs that were chosen for a job; "(likely)" where Slurm chooses them itself."""
    return place(job.planned) + (" (likely)" if job.slurm_chooses_gpus else "")


def reason(job: pb.Job) -> str:
    """Return why the job is in its state, and for how long it will be at most."""
    said = or_absent(job.reason)
    if job.HasField("wait_left_s"):
        return f"{said} (at most {duration(job.wait_left_s)} more)"
    return said


def _summary(found: Sequence[pb.Job]) -> str:
    if not found:
        return "No jobs that ask for GPUs."
    counts: dict[str, int] = {}
    for job in found:
        word = state(job).plain
        counts[word] = counts.get(word, 0) + 1
    parts = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{counted(len(found), 'job')}: {parts}."


def priority(job: pb.Job) -> str:
    """Return Slurm's priority."""
    return str(job.priority) if job.HasField("priority") else ABSENT


# With the width of the terminal below which a column is left out, the least important first.
_COLUMNS: tuple[Column[pb.Job], ...] = (
    Column("JOB", lambda job: or_absent(job.job_id)),
    Column("USER", user),
    Column("ACCOUNT", lambda job: or_absent(job.account), 3),
    Column("PARTITION", lambda job: or_absent(job.partition), 8),
    Column("NAME", lambda job: or_absent(job.name), 5),
    Column("PRIORITY", priority, 1),
    Column("STATE", state),
    Column("GPUS", lambda job: str(job.gpu_count)),
    Column("WAITED", lambda job: duration(job.waited_s)),
    Column("POSITION", position, 7),
    Column("RUN TIME", run_time, 2),
    Column("LINKS", links, 6),
    Column("PLACE", where, 9),
    Column("REASON", reason),
)
