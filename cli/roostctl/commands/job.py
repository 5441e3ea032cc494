"""`roostctl job ID`: one job."""

from collections.abc import Iterable

import click
from rich.text import Text

from roost_proto.v1 import operator_pb2 as pb
from roostctl.commands.eta import about, bounds
from roostctl.commands.jobs import links, place, planned, state, user, where
from roostctl.documents.jobs import OneJobDocument, job_document
from roostctl.options.common import Options, json_option, pass_options
from roostctl.options.completion import job_ids
from roostctl.output.console import Cell, new_console, pairs, print_document, show
from roostctl.output.quantities import duration, or_absent


@click.command(epilog="Example: roostctl job 4711_3")
@click.argument("job_id", metavar="ID", shell_complete=job_ids)
@json_option
@pass_options
def job(options: Options, job_id: str, as_json: bool) -> None:
    """Show one job.

    Tells what was planned for it and what Slurm gave it.

    ID is a Slurm job id, or ID_TASK for one task of an array.
    """
    with options.connect() as operator:
        found = operator.get_job(job_id)
    if as_json:
        document: OneJobDocument = {"schema": "roost.job/1", "job": job_document(found)}
        print_document(document)
        return
    show(new_console(), pairs(_facts(found)))


def _facts(job: pb.Job) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [
        ("Job", or_absent(job.job_id)),
        ("User", user(job)),
        ("Partition", or_absent(job.partition)),
        ("State", state(job)),
        ("Reason", or_absent(job.reason)),
        ("GPUs", str(job.gpu_count)),
        ("Waited", duration(job.waited_s)),
        ("Planned", planned(job)),
        ("Allocated", allocated(job)),
        ("Links", links(job)),
    ]
    if job.HasField("expected_run"):
        run = job.expected_run
        facts.insert(5, ("Run time", f"about {about(run.median_s)} (80%: {bounds(run)})"))
    if job.HasField("turn"):
        by_slurm = f"{job.turn.slurm_position} by Slurm's priority"
        facts.insert(5, ("Position", f"{job.turn.position} of {job.turn.of_count} ({by_slurm})"))
    if job.HasField("wait_left_s"):
        facts.insert(5, ("Decided within", duration(job.wait_left_s)))
    if job.HasField("standing"):
        facts.insert(5, ("Waits for", where(job)))
    return facts


def allocated(job: pb.Job) -> Text:
    """Return what Slurm allocated to the job, and whether that is what was planned."""
    text = Text(place(job.allocated))
    if job.planned and job.allocated:
        if _is_as_planned(job):
            text.append(" (as planned)", "green")
        else:
            text.append(" (not as planned)", "red")
    return text


def _is_as_planned(job: pb.Job) -> bool:
    if job.slurm_chooses_gpus:
        return _counts(job.planned) == _counts(job.allocated)
    return _as_sets(job.planned) == _as_sets(job.allocated)


def _counts(shares: Iterable[pb.NodeAllocation]) -> dict[str, int]:
    return {share.node: len(share.gpu_indices) for share in shares}


def _as_sets(shares: Iterable[pb.NodeAllocation]) -> set[tuple[str, frozenset[int]]]:
    return {(share.node, frozenset(share.gpu_indices)) for share in shares}
