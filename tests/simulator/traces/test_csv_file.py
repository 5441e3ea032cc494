import csv
import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost_sim.errors import TraceError
from roost_sim.traces.csv_file import read_csv, write_csv
from roost_sim.traces.formats import load_trace
from roost_sim.traces.trace import LABELS, UNKNOWN, Status


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "jobs.csv"
    path.write_text(text)
    return path


FULL = """\
submit_s,duration_s,num_gpus,user,model,status,num_nodes
10,5.5,8,ada,bert,Pass,2
30,7,1,bob,,Killed,
20,6,2,ada,vgg,FAILED,1
"""


def test_reads_every_column(tmp_path: Path) -> None:
    loaded = read_csv(write(tmp_path, FULL))
    trace = loaded.trace
    assert trace.submit_s.tolist() == [0.0, 10.0, 20.0]
    assert trace.duration_s.tolist() == [5.5, 6.0, 7.0]
    assert trace.gpu_count.tolist() == [8, 2, 1]
    assert trace.node_count.tolist() == [2, 1, UNKNOWN]
    assert [trace.user_name(i) for i in range(3)] == ["ada", "ada", "bob"]
    assert [trace.model_name(i) for i in range(3)] == ["bert", "vgg", ""]
    assert trace.status.tolist() == [Status.COMPLETED, Status.FAILED, Status.CANCELLED]
    assert trace.epoch_of_zero_s is None
    assert loaded.report.job_count == 3


def test_gzip_and_byte_order_mark_make_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + FULL.encode()))
    assert load_trace(path).trace.gpu_count.tolist() == [8, 2, 1]


def test_helios_own_columns(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,"
        "queue\n"
        "7,u1,vc1,8,64,1,COMPLETED,2020-04-01 00:00:10,x,y,100,0\n"
        "8,u2,vc1,0,4,1,CANCELLED,2020-04-01 00:00:11,x,y,50,0\n"
        "9,u2,vc1,16,4,2,NODE_FAIL,2020-04-01 00:01:10,x,y,50,0\n",
    )
    loaded = load_trace(path)
    assert loaded.trace.submit_s.tolist() == [0.0, 60.0]
    assert loaded.trace.node_count.tolist() == [1, 2]
    assert loaded.trace.status.tolist() == [Status.COMPLETED, Status.FAILED]
    assert loaded.trace.epoch_of_zero_s == 1_585_699_210.0
    assert loaded.report.skipped == {"asks for no GPU": 1}


def test_wall_clock_is_learnt_from_a_second_time_column(tmp_path: Path) -> None:
    path = write(tmp_path, "submit_time,submit_s,duration_s,num_gpus\n1970-01-02 00:00:05,5,1,1\n")
    assert read_csv(path).trace.epoch_of_zero_s == 86_405.0


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("x,1,1", "submission is no number, got 'x'"),
        ("1,,1", "duration is no number, got 'nothing'"),
        ("1,-3,1", "duration is not 0 to 320000000 s, got '-3'"),
        ("1,nan,1", "duration is not 0 to 320000000 s, got 'nan'"),
        ("1,320000001,1", "duration is not 0 to 320000000 s, got '3.2e+08'"),
        ("inf,1,1", "submission is not a time in seconds, got 'inf'"),
        ("1,1,x", "GPU count is no number, got 'x'"),
        ("1,1,inf", "GPUs are not 0 to 1000000, got 'inf'"),
        ("1,1,-1", "GPUs are not 0 to 1000000, got '-1'"),
        ("1,1", "wrong number of fields, got '2 of 3'"),
    ],
)
def test_bad_row_is_counted_with_its_line_or_stops_a_strict_reading(
    tmp_path: Path, row: str, reason: str
) -> None:
    path = write(tmp_path, f"submit_s,duration_s,num_gpus\n1,1,1\n\n{row}\n2,2,2.0\n")
    loaded = read_csv(path)
    assert loaded.trace.gpu_count.tolist() == [1, 2]
    assert loaded.report.bad_count == 1
    assert [str(bad) for bad in loaded.report.examples] == [f"{path}:4: {reason}"]
    with pytest.raises(TraceError) as caught:
        read_csv(path, strict=True)
    assert str(caught.value) == f"{path}:4: {reason}"


def test_zero_nodes_are_a_bad_row_and_an_unknown_status_costs_no_job(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "submit_s,duration_s,num_gpus,status,num_nodes\n1,1,1,gone,1\n1,1,1,pass,0\n1,1,1,,1\n",
    )
    loaded = read_csv(path)
    assert loaded.report.bad_by_reason == {"nodes are not 1 to 1000000": 1}
    assert loaded.report.ignored == {"unknown status": 1}
    assert loaded.trace.status.tolist() == [Status.UNKNOWN] * 2
    with pytest.raises(TraceError, match=r"jobs\.csv:2: unknown status, got 'gone'"):
        read_csv(path, strict=True)


def test_a_bad_row_changes_nothing_for_the_others(tmp_path: Path) -> None:
    rows = "submit_s,duration_s,num_gpus,user\n1,1,1, bob\n2,1,1,bob \n"
    clean = read_csv(write(tmp_path, rows)).trace
    assert clean.user_names == ("bob",)
    assert read_csv(write(tmp_path, rows + "x,1,1,eve\n")).trace.user_names == ("bob",)


def test_names_that_are_not_utf8_cost_no_job_and_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "latin.csv"
    rows = "submit_s,duration_s,num_gpus,user\n1,1,1,Jos\xe9\n2,1,1,Jos\xe8\n"
    path.write_bytes(rows.encode("latin-1"))
    loaded = load_trace(path)
    assert loaded.report.bad_count == 0
    assert loaded.trace.user_names == ("Jos\\xe9", "Jos\\xe8")


def test_only_the_first_bad_rows_are_kept_but_all_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "submit_s,duration_s,num_gpus\n1,1,1\n" + "x,1,1\n" * 100)
    report = read_csv(path).report
    assert (report.bad_count, len(report.examples)) == (100, 20)


QUOTED = """\
submit_s,duration_s,num_gpus,job_name
0,100,1,"two
lines"
5,100,1,"never closed
6,100,1,a
7,100,1,b
"""


@pytest.mark.parametrize("end", ["", '8,100,1,"closed"\n9,100,1,c\n'])
def test_a_quote_that_swallows_rows_is_reported_where_it_opens(tmp_path: Path, end: str) -> None:
    path = write(tmp_path, QUOTED + end)
    loaded = load_trace(path)
    assert loaded.trace.job_name.of(0) == "two lines"
    assert len(loaded.trace) == (2 if end else 1)
    (example,) = map(str, loaded.report.examples)
    assert example.startswith(f"{path}:4: a quote opens here and holds later rows, got 'never")
    with pytest.raises(TraceError, match=r"jobs\.csv:4: a quote opens here"):
        load_trace(path, strict=True)


def test_a_quote_that_is_never_closed_in_a_long_file_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, QUOTED + "8,100,1,c\n" * 20_000)
    with pytest.raises(TraceError, match=r"more than 131,072 characters; is a quote .* not closed"):
        load_trace(path)


def test_jobs_that_never_ran_are_skipped_not_bad(tmp_path: Path) -> None:
    report = read_csv(write(tmp_path, "submit_s,duration_s,num_gpus\n1,0,1\n1,1,1\n")).report
    assert (report.bad_count, report.skipped) == (0, {"ran for no time": 1})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n", "1: no column submit_s or submit_time in the header: a, b"),
        ("\n", "1: no column submit_s or submit_time in the header, which is empty"),
        (
            "submit_s,duration_s,num_gpus,num_gpus\n0,1,1,2\n",
            "1: the header has 2 columns num_gpus",
        ),
        ("qos,user,vc,vc,user,qos\n", "1: the header has 2 columns qos"),  # the first of three
        ("submit_s,num_gpus\n", "1: no column duration_s"),
        ("submit_s,end_s,num_gpus\n", "1: no column start_s or start_time, which an end needs"),
        ("submit_s,duration_s\n", "1: no column num_gpus"),
        ("submit_s,duration_s,num_gpus\n", "no jobs"),
        ("submit_s,duration_s,num_gpus\n1,1,0\n", "no GPU job; of 1 rows: asks for no GPU"),
        ("submit_s,duration_s,num_gpus\n1,1,x\n", "no usable job; the first bad row"),
    ],
)
def test_a_file_without_jobs_says_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        load_trace(write(tmp_path, text))


def test_a_missing_a_binary_and_a_cut_file_are_one_line(tmp_path: Path) -> None:
    binary, cut = tmp_path / "binary", tmp_path / "cut.gz"
    binary.write_bytes(b"\xff\xfe\x00" * 9)
    cut.write_bytes(gzip.compress(FULL.encode())[:-20])
    for path in (tmp_path / "none.csv", binary, cut):
        with pytest.raises(TraceError) as caught:
            load_trace(path)
        assert str(caught.value).startswith(f"{path}:")


@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz"])
def test_a_written_trace_reads_back_alike(tmp_path: Path, name: str) -> None:
    before = read_csv(write(tmp_path, FULL)).trace
    write_csv(before, tmp_path / name)
    after = read_csv(tmp_path / name, strict=True).trace
    for column in ("submit_s", "duration_s", "gpu_count", "node_count", "status"):
        assert getattr(after, column).tolist() == getattr(before, column).tolist()
    for position in range(3):
        assert after.user_name(position) == before.user_name(position)
        assert after.model_name(position) == before.model_name(position)


def test_a_trace_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    trace = read_csv(write(tmp_path, FULL)).trace
    with pytest.raises(TraceError, match="No such file"):
        write_csv(trace, tmp_path / "missing" / "out.csv")


def test_many_jobs_of_many_users_load_whole(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    rows = "".join(f"{i},{i % 977 + 1},{1 << i % 5},u{i % 300}\n" for i in range(50_000))
    path.write_text("submit_s,duration_s,num_gpus,user\n" + rows)
    loaded = read_csv(path)
    assert len(loaded.trace) == 50_000
    assert loaded.trace.user_name(301) == "u1"


HISTORY = """\
submit_s,duration_s,num_gpus,user,job_name,account,vc,partition,qos,time_limit_s,wait_s,is_array
10,5.5,8,ada,train,vision,v1,gpu,high,3600,20.5,1
30,7,1,bob,"a,b",,v2,gpu,,unlimited,,
20,6,2,ada,train,vision,v2,old,high,0,0,0
"""


def test_columns_that_run_times_are_predicted_from(tmp_path: Path) -> None:
    trace = read_csv(write(tmp_path, HISTORY), strict=True).trace
    names = [[trace.job_name.of(job), trace.account.of(job)] for job in range(3)]
    assert names == [["train", "vision"], ["train", "vision"], ["a,b", "v2"]]
    assert [trace.partition.of(job) for job in range(3)] == ["gpu", "old", "gpu"]
    assert [trace.qos.of(job) for job in range(3)] == ["high", "high", ""]
    assert np.nan_to_num(trace.time_limit_s, nan=-1.0, posinf=-2.0).tolist() == [
        3_600.0,
        -1.0,
        -2.0,
    ]
    assert np.nan_to_num(trace.wait_s, nan=-1.0).tolist() == [20.5, 0.0, -1.0]
    assert trace.is_array.tolist() == [True, False, False]


def test_those_columns_are_written_and_read_back_alike(tmp_path: Path) -> None:
    before = read_csv(write(tmp_path, HISTORY.replace("a,b", "a\rb,\nc"))).trace
    write_csv(before, tmp_path / "out.csv")
    after = read_csv(tmp_path / "out.csv", strict=True).trace
    for column in ("time_limit_s", "wait_s", "is_array"):
        assert np.array_equal(getattr(after, column), getattr(before, column), equal_nan=True)
    for name in LABELS:
        labels = [getattr(trace, name) for trace in (before, after)]
        assert [labels[0].of(job) for job in range(3)] == [labels[1].of(job) for job in range(3)]


@pytest.mark.parametrize("limit", ["-1", "1e300", "soon", "-inf"])
def test_a_bad_limit_costs_no_job_but_stops_a_strict_reading(tmp_path: Path, limit: str) -> None:
    path = write(tmp_path, f"submit_s,duration_s,num_gpus,time_limit_s\n1,1,1,{limit}\n2,1,1,60\n")
    loaded = read_csv(path)
    assert np.nan_to_num(loaded.trace.time_limit_s, nan=-1.0).tolist() == [-1.0, 60.0]
    assert (loaded.report.bad_count, loaded.report.ignored.total()) == (0, 1)
    with pytest.raises(TraceError, match=r"jobs\.csv:2: time limit is"):
        read_csv(path, strict=True)


def test_limits_as_slurm_prints_them(tmp_path: Path) -> None:
    path = write(tmp_path, "submit_s,duration_s,num_gpus,timelimit\n1,1,1,1-00:00:00\n2,1,1,x\n")
    assert read_csv(path).trace.time_limit_s.tolist()[0] == 86_400.0


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_other_separators(tmp_path: Path, separator: str) -> None:
    text = HISTORY.replace('"a,b"', "ab").replace(",", separator)
    assert load_trace(write(tmp_path, text), strict=True).trace.job_name.names == ("train", "ab")


@given(st.lists(st.lists(st.text(max_size=12), min_size=12, max_size=12), max_size=5))
@settings(max_examples=150, deadline=None)
def test_any_cells_are_read_or_counted(rows: list[list[str]]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "jobs.csv"
        with path.open("w", encoding="utf-8", errors="surrogatepass", newline="") as text:
            text.write(HISTORY)
            csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
        report = load_trace(path).report
    known = report.job_count + report.bad_count + report.skipped.total()
    assert known == len(rows) + 3
    assert report.job_count >= 3


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "job_count", "skipped"),
    [
        ("helios_venus_2020_mar_jul.csv.gz", 77_574, 0),
        ("helios_venus_2020_aug.csv.gz", 22_133, 0),
        ("philly_2017_sep_oct.csv.gz", 52_849, 0),
        ("philly_2017_nov.csv.gz", 21_318, 0),
        ("generated_8000_for_2048_gpus.csv", 8_000, 0),
    ],
)
def test_public_tables_load_whole(
    data_folder: Path, name: str, job_count: int, skipped: int
) -> None:
    loaded = load_trace(data_folder / "jobs" / name, strict=True)
    assert loaded.report.bad_count == 0
    assert (len(loaded.trace), loaded.report.skipped.total()) == (job_count - skipped, skipped)


@pytest.mark.data
def test_helios_table_with_users_and_ends(data_folder: Path) -> None:
    loaded = load_trace(data_folder / "jobs" / "helios_venus_2020_jun_nodes_status_15k.csv.gz")
    assert loaded.report.bad_count == 0
    assert loaded.report.job_count + loaded.report.skipped.total() == 15_000
    assert {Status(value) for value in set(loaded.trace.status.tolist())} == {
        Status.COMPLETED,
        Status.FAILED,
        Status.CANCELLED,
    }
    assert len(set(loaded.trace.user_id.tolist())) == 95  # and 11 with CPU jobs only
    assert bool(np.all(np.isnan(loaded.trace.time_limit_s)))  # the table has 0 for each


@pytest.mark.data
def test_virtual_clusters_of_philly_are_accounts(data_folder: Path) -> None:
    trace = load_trace(data_folder / "jobs" / "philly_2017_nov.csv.gz").trace
    assert len(trace.account.names) > 5
    assert trace.user_names == ()
