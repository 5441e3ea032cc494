r"""The queue from one `squeue`: its format options and the parser of its output.

`-O Field:SUFFIX` prints full values of any length on every release; the suffix is the control
character \x1f, which no field asked for can hold. Job name, comment and working directory are left
out: users put anything there, line breaks and whole forged lines too. `--json` costs 18 times as
much at 10,000 jobs.
"""

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from roost_slurm.text.limits import MOST_TASKS, uint32
from roost_slurm.text.times import parse_limit, parse_time
from roost_slurm.text.tres import ABSENT, parse_indices, parse_memory_bytes, parse_tres

SEPARATOR = "\x1f"
# In the order of the columns. Every name is known to 22.05 and later; an unknown one would make
# its column vanish with exit code 0.
FIELDS = (
    "JobID",
    "ArrayJobID",
    "ArrayTaskID",
    "HetJobID",
    "UserID",
    "Partition",
    "State",
    "Reason",
    "PriorityLong",
    "SubmitTime",
    "StartTime",
    "EligibleTime",
    "TimeLimit",
    "NumNodes",
    "NumTasks",
    "NumCPUs",
    "cpus-per-task",
    "NTPerNode",
    "tres-per-job",
    "tres-per-node",
    "tres-per-task",
    "tres-per-socket",
    "cpus-per-tres",
    "mem-per-tres",
    "MinMemory",
    "tres-alloc",
    "ReqNodes",
    "NodeList",
    "Feature",
    "OverSubscribe",
    "Reservation",
    "Account",
    "QOS",
    "Licenses",
    "Dependency",
    "RestartCnt",
    "admin_comment",
    "Nice",  # the last: a release that did not know it would print all others as before
)
FORMAT = ",".join(f"{field}:{SEPARATOR}" for field in FIELDS)
_TRES = (  # scontrol's name of a request field, and squeue's
    ("TresPerJob", "tres-per-job"),
    ("TresPerNode", "tres-per-node"),
    ("TresPerTask", "tres-per-task"),
    ("TresPerSocket", "tres-per-socket"),
    ("CpusPerTres", "cpus-per-tres"),
    ("MemPerTres", "mem-per-tres"),
)
_TASK = re.compile(r"\d{1,9}", re.ASCII)


class SlurmJobState(StrEnum):
    """Slurm's job states, as far as Roost distinguishes them."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    OTHER = "OTHER"  # it ended, or is about to be requeued


# In these states a job holds its allocation.
HOLDING = frozenset(
    {
        SlurmJobState.RUNNING,
        SlurmJobState.SUSPENDED,
        SlurmJobState.COMPLETING,
        SlurmJobState.CONFIGURING,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """One record of the queue: a job, one task of an array, or all tasks still in its record.

    Attributes:
        number: Slurm's own number of the record; a task gets one of its own when it leaves the
            array's record.
        array_number: what users call the array; None: not an array.
        task_ids: of an array, ascending: several only while pending; () otherwise.
        unread_task_count: tasks of an array that has more than MOST_TASKS in its record: none of
            them is read, and task_ids is empty; 0 for every other job.
        partition: several, comma-separated, while a job with a choice is pending.
        priority: 0: held.
        nice: what users and operators subtract from the priority; 0 where it is not printed.
        tres: request fields by Slurm's name ("TresPerJob"), only those that are set, raw.
        memory_bytes: of the whole job, as Slurm accounts it; None: memory is not accounted.
        required_nodes, nodes: host lists, "" when none.
        features: the --constraint expression.
        start_epoch_s: of a pending job its begin time, or Slurm's estimate of its start.
        eligible_epoch_s: of a pending job its begin time, else its submission; None while it
            depends on another job.
        tres_total: what the whole job has, or asks for: `cpu=4,mem=2000M,node=1,gres/gpu=2`.
        licenses: `matlab:2,comsol`, "" for none.
    """

    number: int
    array_number: int | None = None
    task_ids: tuple[int, ...] = ()
    unread_task_count: int = 0
    is_heterogeneous: bool = False
    user_id: int = 0
    partition: str = ""
    state: SlurmJobState = SlurmJobState.PENDING
    reason: str = ""
    priority: int = 0
    nice: int = 0
    submit_epoch_s: float = 0.0
    start_epoch_s: float | None = None
    eligible_epoch_s: float | None = None
    time_limit_s: float | None = None
    node_count: int = 1
    task_count: int = 1
    cpu_count: int = 1
    cpus_per_task: int | None = None
    tasks_per_node: int | None = None
    tres: tuple[tuple[str, str], ...] = ()
    tres_total: str = ""
    memory_bytes: int | None = None
    required_nodes: str = ""
    nodes: str = ""
    features: str = ""
    over_subscribe: str = ""
    reservation: str = ""
    account: str = ""
    qos: str = ""
    licenses: str = ""
    dependency: str = ""
    restart_count: int = 0
    admin_comment: str = ""

    @property
    def job_ids(self) -> tuple[str, ...]:
        """As Roost names them: "123", or "123_7" for each task that is read."""
        if self.array_number is None:
            return (str(self.number),)
        if self.unread_task_count:
            return (str(self.array_number),)
        return tuple(f"{self.array_number}_{task}" for task in self.task_ids)

    @property
    def first_id(self) -> str:
        """The first of job_ids, without the others."""
        if len(self.task_ids) < 2:
            return self.job_ids[0]
        return f"{self.array_number}_{self.task_ids[0]}"

    @property
    def submission_number(self) -> int:
        """The number that sbatch printed: of the array, or the job's own."""
        return self.number if self.array_number is None else self.array_number

    @property
    def is_pending(self) -> bool:
        """Waits in the queue, for whatever reason."""
        return self.state is SlurmJobState.PENDING

    @property
    def is_holding(self) -> bool:
        """Holds nodes, GPUs, CPUs or memory."""
        return self.state in HOLDING and bool(self.nodes)


@dataclass(frozen=True, slots=True)
class QueueDump:
    """What one squeue printed."""

    jobs: tuple[QueuedJob, ...]
    malformed_count: int  # lines that were no records, forged ones for instance


class QueueReader:
    """Reads one dump after the other. A line that the dump before had too is not read again."""

    def __init__(self) -> None:
        self._known: dict[str, QueuedJob | None] = {}

    def read(self, text: str) -> QueueDump:
        """Read a dump; see parse_queue."""
        before, self._known = self._known, {}

        def job_of(line: str) -> QueuedJob | None:
            job = before[line] if line in before else _parse_line(line)
            self._known[line] = job
            return job

        return _read_dump(text, job_of)


def parse_queue(text: str) -> QueueDump:
    """Read the output of commands.queue(). Lines that are no records are counted and dropped.

    Lines with one number are the tasks of an array's record, which differ in the task only. Other
    lines with one number are all dropped, because one of them must be forged.
    """
    return _read_dump(text, _parse_line)


def _read_dump(text: str, job_of: Callable[[str], QueuedJob | None]) -> QueueDump:
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for line in filter(None, text.split("\n")):
        lines[line.partition(SEPARATOR)[0]].append(line)
    jobs: list[QueuedJob] = []
    malformed_count = 0
    for alike in lines.values():
        job, dropped_count = _read_record(alike, job_of)
        malformed_count += dropped_count
        if job is not None:
            jobs.append(job)
    return QueueDump(tuple(jobs), malformed_count)


def _read_record(
    lines: list[str], job_of: Callable[[str], QueuedJob | None]
) -> tuple[QueuedJob | None, int]:
    """Read the lines of one number. Returns its job, if it is one, and how many were dropped."""
    if len(lines) > MOST_TASKS:
        first = job_of(lines[0])
        if first is None or first.array_number is None:
            return None, len(lines)
        return replace(first, task_ids=(), unread_task_count=len(lines)), 0
    tasks, others = _tasks_alike(lines)
    read = [job for job in map(job_of, others) if job is not None]
    dropped_count = len(others) - len(read)
    job = _merge_tasks(read, tasks) if read else None
    return job, dropped_count if job is not None else len(lines)


def _tasks_alike(lines: list[str]) -> tuple[list[int], list[str]]:
    """Separate the lines of one number that differ from the first one in the task alone.

    To read each of 5,000 tasks like a job takes 0.1 s.

    Returns:
        The tasks of these lines, and the other lines, the first one included.
    """
    tasks, others = list[int](), [lines[0]]
    if len(lines) == 1:
        return tasks, others
    number, array, _, rest = _cut(lines[0])
    for line in lines[1:]:
        one, other_array, task, other = _cut(line)
        if (one, other_array, other) == (number, array, rest) and _TASK.fullmatch(task):
            tasks.append(int(task))
        else:
            others.append(line)
    return tasks, others


def _cut(line: str) -> tuple[str, str, str, str]:
    """Return the number, the array, the task and the rest of a line, with "" for what it lacks."""
    number, _, rest = line.partition(SEPARATOR)
    array, _, rest = rest.partition(SEPARATOR)
    task, _, rest = rest.partition(SEPARATOR)
    return number, array, task, rest


def _merge_tasks(jobs: list[QueuedJob], tasks: list[int]) -> QueuedJob | None:
    """Return the record of an array from its lines, or a job that is none.

    Args:
        jobs: read from lines of one number.
        tasks: of lines that are otherwise like the first of these.
    """
    first = jobs[0]
    if len(jobs) == 1 and not tasks:
        return first
    task_ids = tuple(sorted([*tasks, *(task for job in jobs for task in job.task_ids)]))
    is_one_array = len(set(task_ids)) == len(jobs) + len(tasks) and all(
        replace(job, task_ids=first.task_ids, reason=first.reason) == first for job in jobs
    )
    return replace(first, task_ids=task_ids) if is_one_array else None


def parse_tasks(text: str) -> tuple[int, ...]:
    """Read an array's tasks: `0-2,5%2` is (0, 1, 2, 5). scontrol prints the limit after % too.

    Raises:
        TresError: not such a list.
    """
    return parse_indices(text.strip("[]").partition("%")[0])


def _parse_line(line: str) -> QueuedJob | None:
    values = line.split(SEPARATOR)
    if len(values) not in (len(FIELDS), len(FIELDS) + 1) or values[-1]:
        return None
    row = dict(zip(FIELDS, values, strict=False))
    try:
        return _job(row)
    except (ValueError, KeyError, OverflowError):
        return None


def _job(row: dict[str, str]) -> QueuedJob:
    number = uint32(row["JobID"])
    is_array = row["ArrayTaskID"] not in ABSENT
    task_ids = parse_tasks(row["ArrayTaskID"]) if is_array else ()
    if is_array and not task_ids:
        raise ValueError("an array's record without a task")
    memory = parse_tres(row["tres-alloc"]).get("mem")
    return QueuedJob(
        number=number,
        array_number=uint32(row["ArrayJobID"]) if is_array else None,
        task_ids=task_ids,
        is_heterogeneous=_text(row["HetJobID"]) not in ("", "0"),
        user_id=uint32(row["UserID"]),
        partition=row["Partition"],
        state=_state(row["State"]),
        reason=_text(row["Reason"]),
        priority=uint32(row["PriorityLong"]),
        nice=_nice(row["Nice"]),
        submit_epoch_s=parse_time(row["SubmitTime"]) or 0.0,
        start_epoch_s=parse_time(row["StartTime"]),
        eligible_epoch_s=parse_time(row["EligibleTime"]),
        time_limit_s=parse_limit(row["TimeLimit"]),
        node_count=uint32(row["NumNodes"].partition("-")[0]),
        task_count=uint32(row["NumTasks"]),
        cpu_count=uint32(row["NumCPUs"].partition("-")[0]),
        cpus_per_task=_number(row["cpus-per-task"]),
        tasks_per_node=_number(row["NTPerNode"]) or None,
        tres=tuple((name, row[field]) for name, field in _TRES if row[field] not in ABSENT),
        tres_total=_text(row["tres-alloc"]),
        memory_bytes=None if memory is None else parse_memory_bytes(memory),
        required_nodes=_text(row["ReqNodes"]),
        nodes=_text(row["NodeList"]),
        features=_text(row["Feature"]),
        over_subscribe=row["OverSubscribe"],
        reservation=_text(row["Reservation"]),
        account=_text(row["Account"]),
        qos=_text(row["QOS"]),
        licenses=_text(row["Licenses"]),
        dependency=_text(row["Dependency"]),
        restart_count=uint32(row["RestartCnt"]),
        admin_comment=_text(row["admin_comment"]),
    )


def _state(text: str) -> SlurmJobState:
    return SlurmJobState(text) if text in SlurmJobState.__members__ else SlurmJobState.OTHER


def _nice(text: str) -> int:
    number = text.removeprefix("-")
    value = uint32(number) if number.isdecimal() else 0
    return -value if text.startswith("-") else value


def _text(text: str) -> str:
    return "" if text in ABSENT else text


def _number(text: str) -> int | None:
    return uint32(text) if text.isdecimal() else None
