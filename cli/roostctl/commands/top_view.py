"""What `roostctl top` draws: nodes with a mark a GPU, running jobs, and the queue."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from roost_proto.v1 import operator_pb2 as pb
from roostctl.commands.jobs import links, position, reason, run_time, state, user, where
from roostctl.commands.nodes import state as node_state
from roostctl.documents.nodes import free_count
from roostctl.documents.values import mode_word
from roostctl.output.quantities import (
    ABSENT,
    counted,
    duration,
    mean,
    or_absent,
    percent,
    safe_text,
)
from roostctl.output.tables import Cell, Column

_RUNNING = (pb.JOB_STATE_RUNNING, pb.JOB_STATE_STOPPING)
_MARKS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_COLOURS = ("cyan", "green", "magenta", "blue", "yellow", "bright_cyan", "bright_magenta")
_ALWAYS = ("running", "waiting")
_LOADS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Moment:
    """The answers to the questions of one frame.

    Attributes:
        fault: why roostd does not answer at present; "" where it does.
    """

    status: pb.Status
    nodes: Sequence[pb.Node]
    jobs: Sequence[pb.Job]
    fault: str = ""


def headline(moment: Moment) -> Text:
    """Return a line about the cluster."""
    status = moment.status
    mode = mode_word(status.default_mode) or ABSENT
    listed = "".join(
        f" {safe_text(one.partition)}:{mode_word(one.mode) or ABSENT}" for one in status.partitions
    )
    text = Text(f"{or_absent(status.cluster)}", "bold")
    text.append(f"  {mode}{listed}", "")
    busy = status.gpu_count - status.gpu_free_count
    text.append(f"  {busy}/{counted(status.gpu_count, 'GPU')} busy")
    text.append(f"  {_counts(moment)}")
    if status.watched_start_count:
        same = status.watched_start_count - status.watched_elsewhere_count
        text.append(f"  Slurm chose alike {same}/{status.watched_start_count}")
    for fault in filter(None, (moment.fault, status.slurm_fault, status.policy_fault)):
        text.append(f"  {safe_text(fault)}", "bold red")
    return text


def _counts(moment: Moment) -> str:
    """Return how many jobs hold GPUs, and how many wait for what: the tables below have as many."""
    left_count = sum(job.state == pb.JOB_STATE_LET_GO for job in moment.jobs)
    counts = (
        (len(running(moment.jobs)), "running"),
        (len(queue(moment.jobs)) - left_count - moment.status.blocked_job_count, "waiting"),
        (moment.status.blocked_job_count, "held, dependent or beyond a limit"),
        (left_count, "left to Slurm"),
    )
    return ", ".join(f"{count} {what}" for count, what in counts if count or what in _ALWAYS)


def job_marks(jobs: Sequence[pb.Job]) -> Mapping[str, tuple[str, str]]:
    """Return a letter and a colour for each job that runs; "#" once the letters are used up."""
    running = [job.job_id for job in jobs if job.state in _RUNNING and job.gpu_count]
    return {
        job_id: (_MARKS[number] if number < len(_MARKS) else "#", _COLOURS[number % len(_COLOURS)])
        for number, job_id in enumerate(running)
    }


def gpu_strip(node: pb.Node, marks: Mapping[str, tuple[str, str]]) -> Text:
    """Return one mark a GPU, in the order of the indices: the letter of its job, or its state."""
    text = Text()
    for gpu in sorted(node.gpus, key=lambda gpu: gpu.index):
        if gpu.fault:
            text.append("!", "bold red")
        elif not gpu.free:
            text.append(*marks.get(gpu.job_id, ("#", "dim")))
        else:
            text.append(*((".", "dim") if node.usable else ("x", "red")))
    return text if text.plain else Text(ABSENT)


def load_strip(node: pb.Node) -> Text:
    """Return one bar a GPU for how busy it is; "?" where that is not known."""
    text = Text()
    for gpu in sorted(node.gpus, key=lambda gpu: gpu.index):
        if not gpu.HasField("sm_frac"):
            text.append("?", "dim")
            continue
        level = round(min(max(gpu.sm_frac, 0.0), 1.0) * (len(_LOADS) - 1))
        text.append(_LOADS[level], "green" if level < len(_LOADS) - 2 else "yellow")
    return text if text.plain else Text(ABSENT)


def node_columns(marks: Mapping[str, tuple[str, str]]) -> Sequence[Column[pb.Node]]:
    """Return the columns of the table of nodes."""
    return (
        Column("NODE", lambda node: or_absent(node.name)),
        Column("GPUS", lambda node: gpu_strip(node, marks)),
        Column("LOAD", load_strip, 4),
        Column("SM", _sm, 3),
        Column("FREE", lambda node: f"{free_count(node)}/{len(node.gpus)}", 5),
        Column("RACK", lambda node: or_absent(node.rack), 1),
        Column("CPUS", lambda node: f"{node.cpu_free_count}/{node.cpu_count}", 2),
        Column("STATE", node_state),
        Column("PROBLEMS", lambda node: or_absent("; ".join(node.problems))),
    )


def _sm(node: pb.Node) -> str:
    return percent(mean(gpu.sm_frac if gpu.HasField("sm_frac") else None for gpu in node.gpus))


def running_columns(marks: Mapping[str, tuple[str, str]]) -> Sequence[Column[pb.Job]]:
    """Return the columns of the table of jobs that run."""

    def mark(job: pb.Job) -> Cell:
        return Text(*marks.get(job.job_id, (ABSENT, "")))

    return (
        Column("", mark),
        Column("JOB", lambda job: or_absent(job.job_id)),
        Column("USER", user, 6),
        Column("NAME", lambda job: or_absent(job.name), 3),
        Column("PARTITION", lambda job: or_absent(job.partition), 2),
        Column("STATE", state, 4),
        Column("GPUS", lambda job: str(job.gpu_count)),
        Column("WAITED", lambda job: duration(job.waited_s), 1),
        Column("LINKS", links, 5),
        Column("PLACE", where),
    )


QUEUE_COLUMNS: Sequence[Column[pb.Job]] = (
    Column("#", position),
    Column("JOB", lambda job: or_absent(job.job_id)),
    Column("USER", user, 6),
    Column("NAME", lambda job: or_absent(job.name), 2),
    Column("PARTITION", lambda job: or_absent(job.partition), 1),
    Column("STATE", state, 3),
    Column("GPUS", lambda job: str(job.gpu_count)),
    Column("WAITED", lambda job: duration(job.waited_s), 5),
    Column("RUN TIME", run_time, 4),
    Column("REASON", reason),
)


def running(jobs: Sequence[pb.Job]) -> list[pb.Job]:
    """Return the jobs that hold GPUs."""
    return [job for job in jobs if job.state in _RUNNING and job.gpu_count]


def queue(jobs: Sequence[pb.Job]) -> list[pb.Job]:
    """Return the jobs that wait, in the order that decides; those without a position last."""
    waiting = [job for job in jobs if job.state not in (*_RUNNING, pb.JOB_STATE_ENDED)]
    return sorted(waiting, key=lambda job: (not job.HasField("turn"), job.turn.position))
