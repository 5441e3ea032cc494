"""`roostctl status`: how the daemon is."""

from collections.abc import Iterator, Sequence

import click
from rich.text import Text

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.status import status_document
from roostctl.documents.values import mode_word
from roostctl.options.common import Options, json_option, pass_options, watch_option
from roostctl.options.watch import repeat
from roostctl.output.console import Cell, new_console, pairs, print_document, prose, show
from roostctl.output.quantities import ABSENT, counted, duration, or_absent, safe_text

_SHA_DIGITS = 12
_SCORE, _CANARY = "score", "+"  # the slot's name; what joins the names of a policy and its canary


@click.command(epilog="Example: roostctl status --check >/dev/null || echo 'roostd needs care'")
@click.option("--check", is_flag=True, help="Exit with 1 at a fault or a wait beyond the cap.")
@json_option
@watch_option
@click.pass_context
@pass_options
def status(
    options: Options, ctx: click.Context, check: bool, as_json: bool, watch_s: float | None
) -> None:
    """Show how the daemon is.

    Tells its version, modes and policy, and what it has done so far.
    With --check roostd asks Slurm before it answers, and the exit code tells of any fault.
    """
    if check and watch_s is not None:
        raise click.UsageError("--check gives one exit code: it does not go with --watch")
    with options.connect() as operator:

        def frame() -> None:
            found = operator.get_status(ask_slurm=check)
            if as_json:
                print_document(status_document(found), compact=watch_s is not None)
            else:
                show(new_console(), pairs(_facts(found)), clear=watch_s is not None)
            if check and (found.policy_fault or found.slurm_fault or found.beyond_cap_count):
                ctx.exit(1)

        repeat(frame, watch_s)


def _facts(status: pb.Status) -> list[tuple[str, Cell]]:
    return [
        ("roostd", f"{or_absent(status.version)}, up {duration(status.uptime_s)}"),
        ("Cluster", or_absent(status.cluster)),
        ("Slurm", _slurm(status)),
        ("Mode", _modes(status)),
        *_stack(status),
        *_slots(status),
        ("Nodes", f"{status.node_count}, of which {status.probe_count} have a live probe"),
        ("GPUs", f"{status.gpu_count}, of which {status.gpu_free_count} are free"),
        ("Jobs", _jobs(status)),
        (
            "Decisions",
            f"{status.decision_count}, of which {status.fallback_count} by the fallback and "
            f"{status.refused_count} refused by Slurm",
        ),
        *_watched(status),
        *_beyond_slurm(status),
        *_shares(status),
    ]


def _shares(status: pb.Status) -> Iterator[tuple[str, Cell]]:
    """Yield by which shares the order compares users, where it does."""
    if not status.HasField("share_user_count"):
        return
    users = counted(status.share_user_count, "user")
    yield "Shares", f"Slurm's, of {users}" if status.share_user_count else "equal: no slurmdbd"


def _jobs(status: pb.Status) -> Text:
    counts = [f"{status.waiting_job_count} waiting", f"{status.running_job_count} running"]
    if status.blocked_job_count:
        counts.append(f"{status.blocked_job_count} held, dependent or beyond a limit")
    if status.left_jobs:
        count = sum(left.job_count for left in status.left_jobs)
        reasons = (f"{left.job_count}: {safe_text(left.reason)}" for left in status.left_jobs)
        counts.append(f"{count} left to Slurm ({'; '.join(reasons)})")
    return prose(", ".join(counts))


def _watched(status: pb.Status) -> Iterator[tuple[str, Cell]]:
    """Yield how often Slurm alone took the GPUs that Roost had chosen; modes shadow and advise."""
    if status.watched_start_count:
        jobs = counted(status.watched_start_count, "job")
        yield (
            "Watched",
            (
                f"Slurm started {jobs} by itself, {status.watched_elsewhere_count} of them on other"
                " GPUs than Roost had chosen"
            ),
        )


def _beyond_slurm(status: pb.Status) -> Iterator[tuple[str, Cell]]:
    """Yield the longest wait that plain Slurm would not have had, where Slurm is asked."""
    if not status.HasField("longest_beyond_slurm_s"):
        return
    longest_s, job_id = status.longest_beyond_slurm_s, status.longest_beyond_slurm_job_id
    text = Text("none")
    if longest_s:
        text = Text(f"up to {duration(longest_s)} longer than under plain Slurm")
        if job_id:  # absent where it is another user's, and the caller may see its own only
            text.append(f", job {safe_text(job_id)}")
    if status.beyond_cap_count:
        beyond = counted(status.beyond_cap_count, "job")
        text.append(f"; {beyond} beyond the cap now", "red")
    yield "Extra wait", text


def _slurm(status: pb.Status) -> Text:
    text = Text(or_absent(status.slurm_version))
    if status.slurm_fault:
        text.append(f", fault: {safe_text(status.slurm_fault)}", "red")
    return text


def _modes(status: pb.Status) -> str:
    named = [
        f"{safe_text(entry.partition)}: {mode_word(entry.mode) or ABSENT}"
        for entry in sorted(status.partitions, key=lambda entry: entry.partition)
    ]
    default = mode_word(status.default_mode) or ABSENT
    return f"{default} ({', '.join(named)})" if named else default


def _stack(status: pb.Status) -> Iterator[tuple[str, Cell]]:
    """Yield the stack of policies in effect; daemons before 0.2 do not name it."""
    if status.stack:
        yield "Stack", f"{safe_text(status.stack)}; placement {or_absent(status.placement)}"


def _slots(status: pb.Status) -> Iterator[tuple[str, Cell]]:
    """Yield the score, and the other slots whose policy is not the heuristic, or has failed."""
    scores = [entry for entry in status.slots if entry.slot == _SCORE]
    yield "Score", _score(status, scores)
    for entry in status.slots:
        if entry in scores or (entry.policy == entry.heuristic and not entry.fault_count):
            continue
        yield safe_text(entry.slot).capitalize(), _with_fault(Text(or_absent(entry.policy)), entry)


def _score(status: pb.Status, slots: Sequence[pb.SlotPolicy]) -> Text:
    """Return the model that is configured, which one exactly that is, and its faults."""
    is_heuristic = any(entry.policy == entry.heuristic for entry in slots)
    is_none = is_heuristic and not status.policy_fault
    text = Text("none: the heuristic" if is_none else or_absent(status.policy_model))
    if status.policy_sha256:
        text.append(f" (sha256 {safe_text(status.policy_sha256[:_SHA_DIGITS])})")
    if status.policy_fault:
        text.append(f"; the heuristic answers: {safe_text(status.policy_fault)}", "red")
    for entry in slots:
        if _CANARY in entry.policy:
            text.append(f"; with a canary: {safe_text(entry.policy)}")
        _with_fault(text, entry)
    return text


def _with_fault(text: Text, entry: pb.SlotPolicy) -> Text:
    if entry.fault_count:
        text.append(f"; {slot_fault(entry)}", "red")
    return text


def slot_fault(entry: pb.SlotPolicy) -> str:
    """Return how often the policy of a slot has failed, and why it failed last."""
    why = f": {safe_text(entry.last_fault)}" if entry.last_fault else ""
    return f"failed {counted(entry.fault_count, 'time')}, the heuristic answered{why}"
