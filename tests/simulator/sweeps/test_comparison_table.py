"""A comparison as a table for a terminal."""

from io import StringIO

import pytest
from rich.console import Console
from tests.simulator.sweeps.cases import done, leaving_out

from roost_sim.sweeps.comparison import Comparison
from roost_sim.sweeps.comparison_table import print_tables, time_text

RUNS = [
    done("sjf", 1, avg_jct_s=30.0, bound_avg_jct_s=20.0, comm_share=None),
    done("fifo", 1, avg_jct_s=60.0, bound_avg_jct_s=20.0, comm_share=None),
    done("sjf", 0, avg_jct_s=10.0, bound_avg_jct_s=10.0, comm_share=None),
    done("fifo", 0, avg_jct_s=100.0, bound_avg_jct_s=10.0, comm_share=None),
    done("sjf", 2, avg_jct_s=50.0, bound_avg_jct_s=10.0, comm_share=None),
]


def comparison() -> Comparison:
    return Comparison.of(RUNS, ["fifo", "sjf"], [None], "fifo")


def printed(width: int) -> list[str]:
    console = Console(width=width, record=True, file=StringIO())
    print_tables(comparison(), console)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_table_has_a_row_a_policy() -> None:
    title, heads, fifo, sjf = printed(260)
    assert title == "Load of the trace"
    assert heads.split()[:4] == ["policy", "knows", "mechanism", "seeds"]
    assert heads.endswith("pins/job")
    assert fifo.split()[0] == "fifo"
    assert sjf.split()[:10] == [
        "sjf",
        "none",
        "lease",
        "3",
        "30.0",
        "s",
        "±",
        "49.7",
        "0.30",
        "[0.10,",
    ]


def test_the_table_shows_who_waits_longest_and_which_user_fares_worst() -> None:
    fair = {"longest_queue_s": 7200.0, "worst_user_slowdown": None, "fairness_mean": 1.5}
    runs = [done("fifo", 0, avg_jct_s=10.0, p95_jct_s=60.0, p99_jct_s=90.0, **fair)]
    console = Console(width=260, record=True, file=StringIO())
    print_tables(Comparison.of(runs, ["fifo"], [None], "fifo"), console)
    _, heads, line = console.export_text().splitlines()
    for name in ("p95", "p99", "longest queue", "fairness", "worst user"):
        assert name in heads
    after_p99 = line.split("1.50 min")[1].split()
    assert after_p99[:5] == ["-", "2.00", "h", "1.50", "-"]


def test_a_ratio_of_other_jobs_is_a_mark_with_a_footnote() -> None:
    sjf = leaving_out(done("sjf", 0, avg_jct_s=5.0), 7, "seven")
    runs = [done("fifo", 0, avg_jct_s=10.0), sjf]
    console = Console(width=80, record=True, file=StringIO())
    print_tables(Comparison.of(runs, ["fifo", "sjf"], [None], "fifo"), console)
    lines = console.export_text().splitlines()
    assert lines[3].split()[4:7] == ["5.00", "s", "-*"]
    assert lines[4] == "* sjf: other jobs than under fifo: 7 left out, there 1 (in seed 0)"


def test_a_narrow_window_shows_fewer_columns_whole() -> None:
    _, heads, _, sjf, hint = printed(80)
    assert "× bound" in heads
    assert "preemptions" not in heads
    assert "…" not in sjf
    assert hint == "A wider window shows more columns, --report all."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.00 s"), (41.2, "41.2 s"), (822, "13.7 min"), (18288, "5.08 h"), (172800, "2.00 d")],
)
def test_times_have_three_digits_and_a_unit(seconds: float, text: str) -> None:
    assert time_text(seconds) == text
