"""Numbers and texts of any user's choice: each is read, or refused before anything is built."""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.hooks.hook_agent import Agent, Plan
from roost_slurm.testing.fake_agent import FakeAgent
from roost_slurm.text import hostlist, limits, squeue
from roost_slurm.text.commands import release
from roost_slurm.text.hostlist import HostlistError
from roost_slurm.text.limits import LAST_EPOCH_S, MOST_HOSTS, MOST_INDICES, MOST_TASKS
from roost_slurm.text.scontrol import parse_jobs
from roost_slurm.text.squeue import FIELDS, SEPARATOR, QueuedJob, parse_queue
from roost_slurm.text.stamp import parse_stamp
from roost_slurm.text.times import parse_limit, parse_time
from roost_slurm.text.tres import TresError, parse_gres, parse_indices, parse_memory_bytes

DIGITS = st.integers(1, 6_000).map(lambda count: "9" * count)
WIDE = "1-" + "9" * 8


Trace: TypeAlias = Callable[[FrameType, str, Any], Any]


class Work:
    """Counts the lines of Roost that run: a measure of work that no machine's speed changes."""

    def __init__(self) -> None:
        self.line_count = 0

    def trace(self, frame: FrameType, event: str, _: Any) -> "Trace | None":
        if "roost_slurm" not in frame.f_code.co_filename:
            return None
        self.line_count += event == "line"
        return self.trace


@pytest.fixture
def work() -> Iterator[Work]:
    counted, before = Work(), sys.gettrace()
    sys.settrace(counted.trace)
    yield counted
    sys.settrace(before)


@pytest.mark.parametrize(
    "text",
    [
        f"n[{WIDE}]",
        "n[" + ",".join(["1-99999"] * 10_000) + "]",
        "n" + "[1-300]" * 1_000,
        "n[1-50000],m[1-50001]",
        ",".join(["n[1-99999]"] * 1_000),
    ],
    ids=["one range", "many ranges", "a product", "a sum", "many items"],
)
def test_a_host_list_beyond_any_cluster_is_refused_before_it_is_built(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []
    numbers = hostlist._numbers

    def count(spans: Iterable[tuple[range, int]]) -> Iterator[str]:
        for number in numbers(spans):
            built.append(number)
            yield number

    monkeypatch.setattr(hostlist, "_numbers", count)

    with pytest.raises(HostlistError, match=f"more than {MOST_HOSTS} names"):
        hostlist.expand(text)

    assert len(built) <= MOST_HOSTS


def test_a_host_list_of_the_largest_size_is_read() -> None:
    assert len(hostlist.expand(f"n[1-{MOST_HOSTS}]")) == MOST_HOSTS


@pytest.mark.parametrize(
    "text", [WIDE, ",".join(["0-1000000"] * 1_000), "9" * 5_000, "0-" + "9" * 5_000]
)
def test_indices_beyond_any_node_are_refused_before_they_are_built(work: Work, text: str) -> None:
    with pytest.raises(TresError):
        parse_indices(text)
    assert work.line_count < 1_000


@given(st.lists(st.tuples(st.integers(0, 10**21), st.integers(0, 10**21)), max_size=6))
def test_any_ranges_are_read_or_refused(spans: list[tuple[int, int]]) -> None:
    text = ",".join(f"{low}-{high}" for low, high in spans)
    try:
        indices = parse_indices(text)
    except TresError:
        return
    assert len(indices) == sum(high + 1 - low for low, high in spans) <= MOST_INDICES


@given(DIGITS, st.sampled_from(["gpu:{}", "gres:gpu:{}", "gpu={}k", "gpu:a100:{}", "gpu:{}x"]))
def test_any_count_of_a_request_is_read_or_refused(digits: str, form: str) -> None:
    try:
        entries = parse_gres(form.format(digits))
    except TresError:
        return
    assert all(entry.count < 10**18 << 30 for entry in entries)


@given(DIGITS, st.sampled_from(["", "K", "M", "T", "P"]))
def test_any_amount_of_memory_is_read_or_refused(digits: str, unit: str) -> None:
    try:
        assert parse_memory_bytes(digits + unit) <= limits.MOST_MEMORY_BYTES
    except TresError:
        return


@pytest.mark.parametrize("text", ["x" * 131_072, "gpu:" + "1" * 131_072, "gpu:1," * 20_000])
def test_a_request_of_absurd_length_is_refused_unread(work: Work, text: str) -> None:
    with pytest.raises(TresError, match="at most 4096 characters"):
        parse_gres(text)
    assert work.line_count < 30


@given(DIGITS)
def test_a_begin_of_any_size_is_a_time_that_slurm_can_be_told(digits: str) -> None:
    stamp = parse_stamp(f"roost:lease begin={digits}")
    assert stamp is not None
    begin_s = stamp.begin_epoch_s
    assert begin_s is None or begin_s <= LAST_EPOCH_S
    assert release(["7"], begin_s)[3].startswith("StartTime=")


@given(DIGITS, DIGITS)
def test_a_time_limit_of_any_size_is_read_or_refused(days: str, minutes: str) -> None:
    try:
        limit_s = parse_limit(f"{days}-00:{minutes}:00")
    except ValueError:
        return
    assert limit_s is not None
    assert limit_s < 1e26


@pytest.mark.parametrize("year", ["10000", "292277026596"])
def test_a_time_after_the_year_9999_is_the_last_one(year: str) -> None:
    assert parse_time(f"{year}-01-01T00:00:00") == LAST_EPOCH_S


def line(**values: str) -> str:
    """A line of squeue, of a job like a recorded one."""
    recorded = read("22.05", "squeue.txt").split("\n")[0].split(SEPARATOR)
    row = dict(zip(FIELDS, recorded, strict=False)) | values
    return SEPARATOR.join((*row.values(), "")) + "\n"


@pytest.mark.parametrize("field", [name for name in FIELDS if "tres" not in name])
@given(digits=DIGITS)
def test_no_number_in_squeue_is_an_exception(field: str, digits: str) -> None:
    dump = parse_queue(line(JobID="1") + line(**{"JobID": "2", field: digits}))
    assert len(dump.jobs) + dump.malformed_count == 2


def test_a_job_that_begins_after_the_year_9999_is_still_in_the_queue() -> None:
    dump = parse_queue(line(JobID="7", StartTime="10001-02-03T04:05:06"))
    assert [job.start_epoch_s for job in dump.jobs] == [LAST_EPOCH_S]


def array(task_count: int) -> str:
    one = line(JobID="9", ArrayJobID="9", ArrayTaskID="TASK")
    return "".join(one.replace("TASK", str(task)) for task in range(task_count))


def test_an_array_of_the_largest_size_is_read_task_by_task() -> None:
    (job,) = parse_queue(array(MOST_TASKS)).jobs
    assert len(job.job_ids) == MOST_TASKS


def test_a_longer_array_is_one_job_without_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse_line = squeue._parse_line

    def count(text: str) -> QueuedJob | None:
        parsed.append(text)
        return parse_line(text)

    monkeypatch.setattr(squeue, "_parse_line", count)

    dump = parse_queue(array(MOST_TASKS + 1) + line(JobID="10"))

    (job, other) = dump.jobs
    assert (job.job_ids, job.unread_task_count) == (("9",), MOST_TASKS + 1)
    assert other.number == 10
    assert len(parsed) == 2
    assert dump.malformed_count == 0


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("number", ["9" * 5_000, "9" * 400, "9" * 19, "9999999P", "0-99999999"])
def test_a_number_anywhere_in_a_job_s_record_is_read_or_makes_it_unreadable(
    release: str, number: str
) -> None:
    lines = [row for row in read(release, "show_job.txt").split("\n") if " CPU_IDs=" in row]
    assert lines
    for record in lines:
        job_number = int(record.partition(" ")[0].partition("=")[2])
        for key in re.findall(r" ([A-Z][A-Za-z/]*)=", record):
            forged = re.sub(rf" {key}=\S*", f" {key}={number}", record)
            assert set(parse_jobs(forged)) <= {job_number}


@given(st.text("JobId=19 NumNodes-[]n(),:gGPMIDXCPU_s", max_size=200))
def test_no_text_in_a_job_s_record_is_an_exception(text: str) -> None:
    record = next(row for row in read("22.05", "show_job.txt").split("\n") if " CPU_IDs=" in row)
    position = len(text) * 37 % len(record)
    parse_jobs(record[:position] + text + record[position:])


def test_a_record_s_number_has_as_many_digits_as_slurm_writes() -> None:
    """A comment may hold whole lines: this one used to end in an exception of int()."""
    text = read("22.05", "show_job.txt")
    assert parse_jobs(f"{text}JobId={'9' * 5_000} JobName=x\n").keys() >= {
        *list(parse_jobs(text))[:-1]
    }


@pytest.mark.parametrize("key", ["JobName", "Comment", "AdminComment"])
def test_blanks_in_a_user_s_text_cost_no_more_than_letters(key: str) -> None:
    """Two ends in one pattern took the square of the blanks: minutes for one argument of sbatch."""
    text = read("26.05", "show_job.txt").split("\n")[0]
    blanks, letters = (
        f"{text.partition(f' {key}=')[0]} {key}=x{filler * 60_000}x UserId=u(1) Comment=c"
        for filler in (" ", "y")
    )

    def cost_s(record: str) -> float:
        began_s = time.process_time()
        parse_jobs(record)
        return time.process_time() - began_s

    assert cost_s(blanks) < 20 * cost_s(letters) + 0.5  # was 10,000 times as much


def test_a_long_comment_is_cut_between_two_words() -> None:
    text = read("26.05", "show_job.txt").split("\n")[0]
    number = int(text.partition(" ")[0].partition("=")[2])
    comment = "x" * 4_070 + " roost:checkpoint=600000000 " + "y" * 60_000
    detail = parse_jobs(f"{text} Comment={comment}\n")[number]
    assert detail.comment == "x" * 4_070


@pytest.mark.parametrize("key", ["9" * 5_000, "128", "²", "-1", ""])
def test_an_agent_s_answer_with_absurd_numbers_is_used_without_them(
    tmp_path: Path, key: str
) -> None:
    socket = tmp_path / "agent.sock"
    answer = {"managed": True, "gpu_indices": [1], "rank_order": [1], "nics": {key: "mlx5_0"}}
    with FakeAgent(socket, {"plan": answer}):
        plan = Agent(socket, 2.0).plan(7)
    assert plan == Plan(managed=True, gpu_indices=(1,), rank_order=(1,), nics={})
