import pytest
from tests.slurm_glue.recorded import RELEASES, numbers, read

from roost_slurm.text.squeue import (
    FIELDS,
    SEPARATOR,
    QueuedJob,
    QueueReader,
    SlurmJobState,
    parse_queue,
    parse_tasks,
)
from roost_slurm.text.tres import gpu_count, parse_counts, parse_gres


def recorded(release: str) -> dict[str, QueuedJob]:
    by_number = {job.number: job for job in parse_queue(read(release, "squeue.txt")).jobs}
    return {
        name: by_number[number] for name, number in numbers(release).items() if number in by_number
    }


@pytest.mark.parametrize("release", RELEASES)
def test_every_recorded_line_is_a_record(release: str) -> None:
    dump = parse_queue(read(release, "squeue.txt"))
    assert dump.malformed_count == 0
    assert len(dump.jobs) == 5 + 18 + 1 + 2 + 1  # running, waiting, depending, components, a task


@pytest.mark.parametrize("release", RELEASES)
def test_what_slurms_limits_count_is_read(release: str) -> None:
    jobs = {job.number: job for job in parse_queue(read(release, "site_squeue.txt")).jobs}
    number = numbers(release, "site_show_job.txt")
    high, remote = jobs[number["high"]], jobs[number["remote"]]
    assert (high.account, high.qos, high.licenses) == ("hep", "high", "matlab:1")
    assert (remote.account, remote.qos, remote.licenses) == ("bio", "big jobs", "ansys@flex:2")
    assert jobs[number["low"]].licenses == ""
    assert parse_counts(high.tres_total) == {
        "cpu": 1.0,
        "mem": 100.0,
        "node": 1.0,
        "billing": 1.0,
        "gres/gpu": 2.0,
        "gres/h100": 2.0,
        "license/matlab": 1.0,
    }
    assert parse_counts(jobs[number["account-full"]].tres_total)["gres/gpu"] == 4.0


@pytest.mark.parametrize("release", RELEASES)
def test_begin_time_is_the_eligible_time_and_an_estimate_is_not(release: str) -> None:
    jobs = {job.number: job for job in parse_queue(read(release, "site_squeue.txt")).jobs}
    number = numbers(release, "site_show_job.txt")
    begins, estimated = jobs[number["begin"]], jobs[number["whole-node"]]
    assert begins.start_epoch_s == begins.eligible_epoch_s == 1893456000.0
    assert estimated.start_epoch_s is not None
    assert estimated.eligible_epoch_s is not None
    assert estimated.start_epoch_s > estimated.eligible_epoch_s


@pytest.mark.parametrize("release", RELEASES)
def test_all_ways_to_ask_for_gpus_are_read(release: str) -> None:
    jobs = recorded(release)
    asked = {
        name: (field, gpu_count(parse_gres(text)))
        for name, job in jobs.items()
        for field, text in job.tres
        if field.startswith("TresPer") and gpu_count(parse_gres(text))
    }
    assert asked["gres"] == ("TresPerNode", 2)
    assert asked["gpus"] == ("TresPerJob", 2)
    assert asked["gpus-per-node"] == ("TresPerNode", 2)
    assert asked["gpus-per-task"] == ("TresPerTask", 1)
    assert asked["gpus-per-socket"] == ("TresPerSocket", 2)
    assert asked["ntasks-per-gpu"] == ("TresPerJob", 2)
    assert "no-gpu" not in asked


@pytest.mark.parametrize("release", RELEASES)
def test_states_and_reasons_are_read(release: str) -> None:
    jobs = recorded(release)
    assert jobs["typed"].state is SlurmJobState.RUNNING
    assert jobs["suspended"].is_holding
    assert jobs["gres"].is_pending
    assert jobs["held"].priority == 0
    assert jobs["after"].dependency.startswith("afterok:")
    assert jobs["gres"].dependency == ""
    assert jobs["het"].is_heterogeneous
    assert not jobs["gres"].is_heterogeneous


@pytest.mark.parametrize("release", RELEASES)
def test_sizes_and_lists_are_read(release: str) -> None:
    jobs = recorded(release)
    assert jobs["gres"].admin_comment == "roost:lease begin=1893456000"
    assert jobs["gres"].start_epoch_s == 1893456000.0
    assert jobs["mem-per-cpu"].cpu_count == 6
    assert jobs["two-nodes-tasks"].tasks_per_node == 2
    assert jobs["two-nodes-tasks"].node_count == 2
    assert jobs["lists"].required_nodes == "n1"
    assert jobs["features"].features == "a100&big"
    assert jobs["features"].time_limit_s == 93840.0
    assert jobs["two-nodes"].nodes == "n[1-2]"


@pytest.mark.parametrize("release", RELEASES)
def test_array_is_one_record_and_a_task_that_left_it_another(release: str) -> None:
    arrays = {job.number: job for job in parse_queue(read(release, "squeue.txt")).jobs}
    tasks = sorted(job.task_ids for job in arrays.values() if job.array_number is not None)
    assert tasks == [(0, 6, 9, 11), (3,)]
    job_ids = [job_id for job in arrays.values() for job_id in job.job_ids]
    assert len(set(job_ids)) == len(job_ids)


def line(number: int = 7, **changes: str) -> str:
    row = dict.fromkeys(FIELDS, "N/A") | {
        "JobID": str(number),
        "ArrayJobID": str(number),
        "UserID": "1000",
        "Partition": "main",
        "State": "PENDING",
        "PriorityLong": "5",
        "SubmitTime": "2026-01-02T03:04:05",
        "NumNodes": "1",
        "NumTasks": "1",
        "NumCPUs": "1",
        "RestartCnt": "0",
        "OverSubscribe": "OK",
    }
    return "".join(value + SEPARATOR for value in (row | changes).values())


@pytest.mark.parametrize(
    ("text", "nice"), [("0", 0), ("-100", -100), ("2147483645", 2147483645), ("N/A", 0), ("-", 0)]
)
def test_nice_may_be_negative_and_is_0_where_it_is_not_said(text: str, nice: int) -> None:
    (job,) = parse_queue(line(Nice=text)).jobs
    assert job.nice == nice


def test_a_release_that_does_not_print_nice_prints_all_else() -> None:
    without = line(Nice="").removesuffix(SEPARATOR)
    assert parse_queue(without).jobs == parse_queue(line(Nice="0")).jobs


@pytest.mark.parametrize(
    "bad",
    [
        "JobId=7 forged",
        line().replace(SEPARATOR, "|"),
        line() + "more",
        line()[:-1],
        line(NumCPUs="many"),
        line(SubmitTime="yesterday"),
        line(ArrayTaskID="1-"),
        line(ArrayTaskID="9-1"),
        line(ArrayTaskID="[]"),
    ],
)
def test_line_that_is_no_record_is_dropped_and_counted(bad: str) -> None:
    dump = parse_queue(f"{line(1)}\n{bad}\n{line(2)}\n")
    assert [job.number for job in dump.jobs] == [1, 2]
    assert dump.malformed_count == 1


def test_two_different_records_of_one_number_are_both_dropped() -> None:
    dump = parse_queue("\n".join([line(1), line(1, UserID="0"), line(2)]))
    assert [job.number for job in dump.jobs] == [2]
    assert dump.malformed_count == 2


def test_empty_queue() -> None:
    assert parse_queue("") == parse_queue("\n")
    assert parse_queue("").jobs == ()


def test_the_tasks_of_an_array_are_read_without_its_limit() -> None:
    assert parse_tasks("0-2,5%2") == (0, 1, 2, 5)


def test_the_number_of_a_submission_is_that_of_its_array() -> None:
    assert QueuedJob(number=8).submission_number == 8
    task = QueuedJob(number=9, array_number=8, task_ids=(3,))
    assert task.submission_number == 8


@pytest.mark.parametrize("release", RELEASES)
def test_a_reader_of_dumps_reads_each_as_if_it_were_the_first(release: str) -> None:
    text = read(release, "squeue.txt")
    first, *others = text.split("\n")
    reader = QueueReader()
    for dump in (text, text, "\n".join(others), "forged\n" + text, "", first.replace("PD", "R")):
        assert reader.read(dump) == parse_queue(dump)


def test_a_line_that_stays_is_read_once() -> None:
    text = read("24.11", "squeue.txt")
    reader = QueueReader()
    before, after = reader.read(text), reader.read(text)
    singles = [number for number, job in enumerate(before.jobs) if len(job.task_ids) < 2]
    assert all(after.jobs[number] is before.jobs[number] for number in singles)
    reader.read("")
    assert not reader._known


def test_the_tasks_of_a_record_are_read_with_its_first_line() -> None:
    tasks = [line(ArrayTaskID=str(task)) for task in (4, 2, 9)]
    reader = QueueReader()
    (job,) = reader.read("\n".join(tasks)).jobs
    assert job.task_ids == (2, 4, 9)
    assert len(reader._known) == 1


def test_a_task_whose_reason_differs_is_of_the_record_too() -> None:
    lines = [line(ArrayTaskID="4"), line(ArrayTaskID="2", Reason="JobArrayTaskLimit")]
    (job,) = parse_queue("\n".join(lines)).jobs
    assert job.task_ids == (2, 4)


def test_a_line_of_an_array_that_comes_twice_or_asks_for_something_else_is_forged() -> None:
    first = line(ArrayTaskID="4")
    for other in (first, line(ArrayTaskID="5", NumCPUs="8"), line(ArrayTaskID="5_")):
        dump = parse_queue(f"{first}\n{line(ArrayTaskID='6')}\n{other}")
        assert dump.malformed_count >= 1
        assert all(job.task_ids == (4, 6) for job in dump.jobs)
