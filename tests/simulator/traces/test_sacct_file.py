"""sacct traces: fields, states, TRES and bad rows."""

from pathlib import Path

import pytest

from roost_sim.errors import TraceError
from roost_sim.traces.formats import load_trace
from roost_sim.traces.sacct_file import gpus_of
from roost_sim.traces.trace import Status

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
    with pytest.raises(TraceError, match=r"txt:1: no field ElapsedRaw or Elapsed; .* sacct -a -P"):
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
