"""sacct traces: fields, states, TRES and bad rows."""

import math
import re
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import missing

from roost_sim.errors import TraceError
from roost_sim.traces.formats import load_trace
from roost_sim.traces.rows import Unusable
from roost_sim.traces.sacct_file import COMMAND, gpus_of
from roost_sim.traces.trace import Status
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm, LocalSlurmFailed
from roost_slurm.testing.site_plan import AccountingPlan

USER = "games"  # every Debian has it

SACCT = """\
JobID|User|Submit|Elapsed|NNodes|AllocTRES|ReqTRES|State
101|ada|2026-03-01T10:00:00|1-02:03:04|2|cpu=16,gres/gpu:a100=8,gres/gpu=8,node=2||COMPLETED
101.batch||2026-03-01T10:00:00|1-02:03:04|1|cpu=8||COMPLETED
102_3|bob|2026-03-01T10:00:30|02:00|1|gres/gpu:g2=1,gres/gpu:g3=1||CANCELLED by 1000
103|bob|2026-03-01T10:01:00|00:00:00|0||cpu=1,gres/gpu=4|CANCELLED by 1000
104|bob|2026-03-01T10:02:00|00:10:00|1|cpu=4||COMPLETED
105|eve|2026-03-01T10:03:00|00:10:00|1|gres/gpu=1||RUNNING
106|eve|2026-03-01T10:04:00|00:00:10|1|gres/gpu=1||OUT_OF_MEMORY
"""


def test_sacct_text(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(SACCT)
    loaded = load_trace(path)
    trace = loaded.trace
    assert trace.submit_s.tolist() == [0.0, 30.0, 240.0]
    assert trace.duration_s.tolist() == [93_784.0, 120.0, 10.0]
    assert trace.gpu_count.tolist() == [8, 2, 1]
    assert trace.node_count.tolist() == [2, 1, 1]
    assert trace.status.tolist() == [Status.COMPLETED, Status.CANCELLED, Status.FAILED]
    assert trace.user_names == ("ada", "bob", "eve")
    assert loaded.report.skipped == {
        "is a job step": 1,
        "ran for no time": 1,
        "asks for no GPU": 1,
        "has not ended": 1,
    }
    assert loaded.report.bad_count == 0


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("1|2026-03-01T10:00:00|soon|gres/gpu=1", "Elapsed is not [days-][hours:]"),
        ("1|Unknown|00:10|gres/gpu=1", "not a date and time such as"),
        ("1|2026-03-01T10:00:00|00:10|cpu=2,gres/gpu=x", "its GPUs cannot be counted, got"),
        ("1|2026-03-01T10:00:00|00:10|gres/gpu", "its GPUs cannot be counted, got 'gres/gpu'"),
        ("1|a|b|2026-03-01T10:00:00|00:10|gres/gpu=1", "wrong number of fields, got '6 of 4'"),
    ],
)
def test_bad_sacct_row(tmp_path: Path, row: str, reason: str) -> None:
    path = tmp_path / "sacct.txt"
    good = "2|2026-03-01T10:00:00|00:10|gres/gpu=1"
    path.write_text(f"JobID|Submit|Elapsed|AllocTRES\n{row}\n{good}\n")
    loaded = load_trace(path)
    assert len(loaded.trace) == 1
    assert str(loaded.report.examples[0]).startswith(f"{path}:2: {reason}")
    with pytest.raises(TraceError, match=r"sacct\.txt:2: "):
        load_trace(path, strict=True)


def test_missing_sacct_field_says_how_to_write_the_file(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text("JobID|Submit|AllocTRES\n")
    with pytest.raises(
        TraceError, match=r"txt:1: no field ElapsedRaw or Elapsed or End; .* sacct -a -P"
    ):
        load_trace(path)


@pytest.mark.parametrize(
    ("tres", "count"),
    [
        ("", 0),
        ("billing=8,cpu=8,mem=4G", 0),
        ("gres/gpu=3", 3),
        ("gres/gpu:a100=4,gres/gpu=4", 4),
        ("gres/gpu:g0=1,gres/gpu:g5=1", 2),
        ("gres/gpumem=40G,gres/gpu=2", 2),
    ],
)
def test_gpus_of_a_tres_list(tres: str, count: int) -> None:
    assert gpus_of(tres) == count


@pytest.mark.parametrize("tres", ["gres/gpu=1K", "gres/gpu:a100=0.5,cpu=1", "gres/gpu=2x"])
def test_gpus_that_are_no_whole_number_are_not_cut_to_one(tres: str) -> None:
    with pytest.raises(Unusable, match="cannot be counted"):
        gpus_of(tres)


HEADER = COMMAND.rpartition(" -o ")[2].replace(",", "|")
ROWS = (
    "201|ada|vision|gpu|high|2026-03-01T10:00:00|2026-03-01T10:05:00|600|1-00:00:00|2|"
    "gres/gpu=8|gres/gpu=8|COMPLETED|train|resnet",
    "202_7|bob|nlp|gpu,old|normal|2026-03-01T10:01:00|Unknown|60|UNLIMITED|1|"
    "cpu=4|cpu=4,gres/gpu=2|CANCELLED by 1000|bert",
    "203|bob|nlp|gpu|normal|2026-03-01T10:02:00|2026-03-01T10:02:00|30|Partition_Limit|1|"
    "gres/gpu=1||TIMEOUT|bert",
)


def written(tmp_path: Path, *lines: str, end: str = "\n") -> Path:
    path = tmp_path / "sacct.txt"
    path.write_text("\n".join(lines) + end, encoding="utf-8", newline="")
    return path


def test_every_column_of_the_documented_command(tmp_path: Path) -> None:
    loaded = load_trace(written(tmp_path, HEADER, *ROWS), strict=True)
    trace = loaded.trace
    assert [trace.job_name.of(job) for job in range(3)] == ["train|resnet", "bert", "bert"]
    assert [trace.account.of(job) for job in range(3)] == ["vision", "nlp", "nlp"]
    assert [trace.partition.of(job) for job in range(3)] == ["gpu", "gpu,old", "gpu"]
    assert [trace.qos.of(job) for job in range(3)] == ["high", "normal", "normal"]
    assert trace.time_limit_s.tolist()[:2] == [86_400.0, math.inf]
    assert math.isnan(trace.time_limit_s[2])
    assert trace.wait_s.tolist()[0] == 300.0
    assert math.isnan(trace.wait_s[1])
    assert trace.gpu_count.tolist() == [8, 2, 1]
    assert trace.is_array.tolist() == [False, True, False]
    assert trace.status.tolist() == [Status.COMPLETED, Status.CANCELLED, Status.TIMEOUT]
    assert trace.ended_s().tolist() == [900.0, 120.0, 150.0]


@pytest.mark.parametrize("separator", [",", ";", "\t", "^", "~", "#"])
def test_other_separators_and_orders_of_columns(tmp_path: Path, separator: str) -> None:
    header = ("State", "AllocTRES", "ElapsedRaw", "Submit", "JobID", "Timelimit")
    row = ("COMPLETED", "cpu=8,gres/gpu=4,node=1", "60", "2026-03-01T10:00:00", "7", "02:00:00")
    whole = written(tmp_path, separator.join(header), separator.join(row))
    trace = load_trace(whole, strict=True).trace
    assert (trace.gpu_count.tolist(), trace.time_limit_s.tolist()) == ([4], [7_200.0])
    quoted = written(tmp_path, separator.join(header), separator.join(f'"{cell}"' for cell in row))
    assert load_trace(quoted, strict=True).trace.gpu_count.tolist() == [4]


def test_the_documented_columns_with_commas_keep_two_lists_of_tres_apart(tmp_path: Path) -> None:
    row = "7,ada,vision,gpu,high,2026-03-01T10:00:00,2026-03-01T10:05:00,60,02:00:00,1,"
    held = "billing=8,cpu=8,gres/gpu:a100=4,gres/gpu=4,node=1"
    path = written(
        tmp_path, HEADER.replace("|", ","), f"{row}{held},cpu=8,gres/gpu=2,COMPLETED,a,b"
    )
    trace = load_trace(path, strict=True).trace
    assert (trace.gpu_count.tolist(), trace.job_name.of(0)) == ([4], "a,b")


def test_lines_that_end_with_a_separator_as_sacct_p_writes_them(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + "|", *(row + "|" for row in ROWS[1:]))
    loaded = load_trace(path, strict=True)
    assert loaded.trace.job_name.of(0) == "bert"
    trace = load_trace(written(tmp_path, HEADER + "|", ROWS[0] + "|"), strict=True).trace
    assert trace.job_name.of(0) == "train|resnet"


def test_a_job_in_the_files_of_two_months_counts_once(tmp_path: Path) -> None:
    requeued = ROWS[1].replace("2026-03-01", "2026-03-03")
    assert requeued != ROWS[1]
    loaded = load_trace(written(tmp_path, HEADER, *ROWS[:2], HEADER, ROWS[1], requeued))
    assert len(loaded.trace) == 3
    assert loaded.report.skipped == {"is listed twice": 1}


def test_a_start_and_an_end_stand_for_the_run_time(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|State|ReqTRES"
    rows = (
        "1|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T11:05:00|COMPLETED|gres/gpu=1",
        "2|2026-03-01T10:00:00|2026-03-01T10:05:00|Unknown|COMPLETED|gres/gpu=1",
        "3|2026-03-01T10:00:00|None|2026-03-01T11:05:00|CANCELLED by 0|gres/gpu=1",
        "4|2026-03-01T10:00:00|2026-03-01T10:05:00|2026-03-01T10:04:00|FAILED|gres/gpu=1",
    )
    loaded = load_trace(written(tmp_path, header, *rows))
    assert loaded.trace.duration_s.tolist() == [3_600.0]
    assert loaded.trace.wait_s.tolist() == [300.0]
    assert loaded.report.skipped == {"has not ended": 1, "was never started": 1}
    assert loaded.report.bad_count == 1


def test_an_end_needs_a_start(tmp_path: Path) -> None:
    path = written(tmp_path, "JobID|Submit|End|ReqTRES", "1|0|5|gres/gpu=1")
    with pytest.raises(TraceError, match=r"txt:1: no field Start beside End; write .* sacct"):
        load_trace(path)


def test_an_unknown_state_costs_no_job(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, ROWS[0].replace("COMPLETED", "EXPEDITING"))
    loaded = load_trace(path)
    assert loaded.trace.status.tolist() == [Status.UNKNOWN]
    assert (loaded.report.bad_count, loaded.report.ignored) == (0, {"unknown status": 1})
    with pytest.raises(TraceError, match=r"txt:2: unknown status, got 'EXPEDITING'"):
        load_trace(path, strict=True)


def test_every_sacct_command_of_the_docs_writes_a_trace(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    found = 0
    for page in (root / "README.md", *sorted((root / "docs").rglob("*.md"))):
        text = page.read_text().replace("\\\n", "")
        for names in re.findall(r"sacct -[^\n`]*-o (JobID,[A-Za-z,]+)", text):
            values = {
                "Submit": "2026-03-01T10:00:00",
                "Start": "2026-03-01T10:00:00",
                "End": "2026-03-01T10:01:40",
                "ElapsedRaw": "100",
                "AllocTRES": "gres/gpu=2",
                "NNodes": "1",
                "State": "COMPLETED",
                "Timelimit": "01:00:00",
            }
            row = "|".join(values.get(name, "x") for name in names.split(","))
            trace = load_trace(written(tmp_path, names.replace(",", "|"), row)).trace
            assert (trace.duration_s.tolist(), trace.gpu_count.tolist()) == ([100.0], [2]), page
            found += 1
    assert found >= 3


def test_files_of_several_months_in_one(tmp_path: Path) -> None:
    assert len(load_trace(written(tmp_path, HEADER, ROWS[0], HEADER, ROWS[1])).trace) == 2


@pytest.mark.parametrize(("start", "end"), [(b"\xef\xbb\xbf", b"\n"), (b"", b"\r\n")])
def test_a_byte_order_mark_and_line_ends_of_windows_cost_nothing(
    tmp_path: Path, start: bytes, end: bytes
) -> None:
    path = tmp_path / "sacct.txt"
    path.write_bytes(start + b"".join(line.encode() + end for line in (HEADER, *ROWS)))
    assert len(load_trace(path, strict=True).trace) == len(ROWS)


def test_times_in_seconds_are_read_and_other_formats_named(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|ElapsedRaw|AllocTRES"
    path = written(tmp_path, header, "1|1772359200|1772359260|5|gres/gpu=1")
    trace = load_trace(path, strict=True).trace
    assert (trace.epoch_of_zero_s, trace.wait_s.tolist()) == (1_772_359_200.0, [60.0])
    path = written(tmp_path, header, "1|Ystday 10:00|x|5|gres/gpu=1")
    with pytest.raises(TraceError, match=r"txt:2: not a date .* unset SLURM_TIME_FORMAT"):
        load_trace(path, strict=True)


def test_a_cut_off_file_keeps_all_whole_lines_and_says_so(tmp_path: Path) -> None:
    whole = "\n".join((HEADER, *ROWS))
    for length in range(len(whole) - len(ROWS[2]) + 1, len(whole) - len("TIMEOUT|bert")):
        path = tmp_path / "cut.txt"
        path.write_text(whole[:length])
        loaded = load_trace(path)
        assert len(loaded.trace) == 2
        assert loaded.report.bad_by_reason == {
            "the file is cut off in its last line; write it again": 1
        }
        with pytest.raises(TraceError, match=r"cut\.txt:4: the file is cut off"):
            load_trace(path, strict=True)


@pytest.mark.parametrize("limit", ["-5", "99999999-00:00:00", "soon", "1:2:3:4"])
def test_a_limit_that_is_none_costs_no_job(tmp_path: Path, limit: str) -> None:
    path = written(tmp_path, HEADER, ROWS[0].replace("1-00:00:00", limit))
    loaded = load_trace(path)
    assert math.isnan(loaded.trace.time_limit_s[0])
    assert (loaded.report.bad_count, loaded.report.ignored.total()) == (0, 1)
    with pytest.raises(TraceError, match=r"txt:2: time limit is not"):
        load_trace(path, strict=True)


def test_a_start_before_the_submission_costs_no_job(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER, ROWS[0].replace("T10:05", "T09:05"))
    loaded = load_trace(path)
    assert math.isnan(loaded.trace.wait_s[0])
    assert loaded.report.ignored == {"start is before submission": 1}


def test_names_of_ten_kilobytes_and_of_other_encodings_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    names = (b"n" * 10_000 + b"1", b"n" * 10_000 + b"2", b"caf\xe9", b"caf\xe8")
    start = ROWS[1].rpartition("|")[0].encode() + b"|"
    path.write_bytes(b"\n".join((HEADER.encode(), *(start + name for name in names), b"")))
    trace = load_trace(path, strict=True).trace
    assert len(trace.job_name.names) == 4
    assert max(map(len, trace.job_name.names)) <= 200


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Slurm accounting storage is disabled\n", "AccountingStorageType=accounting_storage/"),
        ("sacct: error: Problem talking to the database: x\n", "Problem talking to the database"),
        (
            "JobID Submit Elapsed AllocTRES\n----- ------\n",
            "the columns are padded; .* sacct",
        ),
        (HEADER + "\n", "no jobs: without -S sacct lists those of today"),
    ],
)
def test_a_file_that_sacct_did_not_fill_says_what_to_do(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(text)
    with pytest.raises(TraceError, match=rf"sacct\.txt:1: .*{reason}"):
        load_trace(path)


_CELL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=20)
_GOOD_CELLS = st.sampled_from([cell for row in ROWS for cell in row.split("|")])


@given(rows=st.lists(st.lists(_CELL | _GOOD_CELLS, min_size=12, max_size=16), max_size=6))
@settings(max_examples=150, deadline=None)
def test_any_rows_leave_the_good_ones_as_they_are(rows: list[list[str]]) -> None:
    with TemporaryDirectory() as folder:
        lines = [HEADER, ROWS[0], *("|".join(row) for row in rows), ROWS[1]]
        loaded = load_trace(written(Path(folder), *lines))
    report, names = loaded.report, loaded.trace.job_name.names
    blank = sum(not "|".join(row).rstrip("\r\n") for row in rows)
    known = report.job_count + report.bad_count + report.skipped.total()
    assert known >= len(rows) + 2 - blank  # odd characters of Unicode end a line, too
    assert {"train|resnet", "bert"} <= set(names)


@given(st.integers(0, 600), st.binary(max_size=8))
@settings(max_examples=150, deadline=None)
def test_a_damaged_file_is_read_or_refused(at: int, damage: bytes) -> None:
    whole = "\n".join((HEADER, *ROWS, "")).encode()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sacct.txt"
        path.write_bytes(whole[:at] + damage + whole[at + len(damage) :])
        with suppress(TraceError):
            assert len(load_trace(path).trace) >= 1


@pytest.mark.slurm
def test_what_slurm_itself_prints(tmp_path: Path) -> None:
    accounted = replace(ClusterPlan.uniform(1, 4), accounting=AccountingPlan())
    path = tmp_path / "sacct.txt"
    try:
        with LocalSlurm(accounted) as slurm:
            slurm.accounting.add_account("physics")
            slurm.accounting.add_user(USER, "physics")
            options = (("--gres=gpu:2", "-J", "a|b", "-t", "90"), ("--gres=gpu:1", "--array=7"))
            for each in options:
                slurm.submit(*each, script="srun true", user=USER)
            deadline = time.monotonic() + 90.0
            while (text := slurm.run(*COMMAND.split())).count("COMPLETED") < len(options):
                assert time.monotonic() < deadline, text
                time.sleep(0.5)
    except LocalSlurmUnavailable as error:
        missing(str(error))
    # A job of a second may have run for no whole one.
    path.write_text(re.sub(r"\|0\|(?=01:30:00|UNLIMITED|365-)", "|1|", text))
    trace = load_trace(path, strict=True).trace
    assert [trace.user_name(0), trace.account.of(0), trace.qos.of(0)] == [USER, "physics", "normal"]
    first = int(trace.gpu_count[0] != 2)  # both were submitted within one second
    assert sorted(trace.gpu_count.tolist()) == [1, 2]
    assert (trace.job_name.of(first), trace.time_limit_s[first]) == ("a|b", 5_400.0)
    assert trace.is_array[1 - first]
    assert 0.0 <= trace.wait_s[first] < 120.0


@pytest.mark.slurm
def test_what_slurm_prints_without_accounting(tmp_path: Path) -> None:
    path = tmp_path / "sacct.txt"
    try:
        with (
            LocalSlurm(ClusterPlan.uniform(1, 4)) as slurm,
            pytest.raises(LocalSlurmFailed) as caught,
        ):
            slurm.run("sacct", "-a", "-P")
    except LocalSlurmUnavailable as error:
        missing(str(error))
    path.write_text(str(caught.value).partition(": ")[2])
    with pytest.raises(TraceError, match="AccountingStorageType=accounting_storage/slurmdbd"):
        load_trace(path)
