"""A comparison as a table for a terminal."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from roost_sim.sweeps.comparison import TIMES_BOUND, Comparison, Summary

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    metric: str
    show: Callable[[float], str]
    with_interval: bool = False
    is_ratio: bool = False


def time_text(seconds: float, like_s: float | None = None) -> str:
    """Format a time with three digits and a unit: 41.2 s, 13.7 min, 5.08 h, 12.4 d.

    Args:
        seconds: the time.
        like_s: use the unit of this time; None: the unit of `seconds`.
    """
    size_s = abs(seconds if like_s is None else like_s)
    length_s, unit = next((pair for pair in _UNITS if size_s >= pair[0]), _UNITS[-1])
    return f"{_three_digits(seconds / length_s)} {unit}"


def _three_digits(value: float) -> str:
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def percent_text(frac: float) -> str:
    """Format a fraction as percent."""
    return f"{100 * frac:.1f} %"


# The most important columns first: a narrow terminal shows only as many as fit.
_COLUMNS = (
    _Column("avg JCT", "avg_jct_s", time_text, with_interval=True),
    _Column("÷ {baseline}", "avg_jct_s", lambda value: f"{value:.2f}", is_ratio=True),
    _Column("× bound", TIMES_BOUND, lambda value: f"{value:.2f}"),
    _Column("p95", "p95_jct_s", time_text),
    _Column("p99", "p99_jct_s", time_text),
    _Column("queue", "avg_queue_s", time_text),
    _Column("longest queue", "longest_queue_s", time_text),
    _Column("fairness", "fairness_mean", lambda value: f"{value:.2f}"),
    _Column("worst user", "worst_user_slowdown", lambda value: f"{value:.2f}"),
    _Column("makespan", "makespan_s", time_text),
    _Column("occupancy", "occupancy", percent_text),
    _Column("comm share", "comm_share", percent_text),
    _Column("preemptions", "preemptions", lambda value: f"{value:.0f}"),
    _Column("large p99 queue", "large_p99_queue_s", time_text),
    _Column("idle, wanted", "occupancy_loss", percent_text),
    _Column("pins/job", "pins_per_job", lambda value: f"{value:.2f}"),
)


def print_tables(comparison: Comparison, console: Console) -> None:
    """Print one table for each load. Times are means over seeds; ± is half the 95 % interval."""
    is_cut = False
    for load in dict.fromkeys(summary.load for summary in comparison.summaries):
        summaries = [summary for summary in comparison.summaries if summary.load == load]
        count = len(_COLUMNS)
        while count > 1 and _width(_table(load, summaries, count), console) > console.width:
            count, is_cut = count - 1, True
        console.print(_table(load, summaries, count))
        for summary in summaries:
            if summary.not_comparable:
                note = f"* {summary.policy}: {summary.not_comparable}"
                console.print(note, soft_wrap=True, highlight=False, markup=False)
    if is_cut:
        console.print("A wider window shows more columns, --report all.", style="dim")


def left_out_lines(comparison: Comparison) -> list[str]:
    """Return lines on the jobs left out: a policy that completes fewer jobs looks better."""
    most: dict[tuple[str, str], int] = {}
    for run in comparison.runs:
        for reason, count in run.curves.left_out:
            key = run.case.policy, reason
            most[key] = max(most.get(key, 0), count)
    return [
        f"{policy}: left out {count} jobs in a run: {reason}"
        for (policy, reason), count in most.items()
    ]


def _width(table: Table, console: Console) -> int:
    unlimited = console.options.update(width=10_000)
    return console.measure(table, options=unlimited).maximum


def _table(load: float | None, summaries: list[Summary], column_count: int) -> Table:
    columns = _COLUMNS[:column_count]
    table = Table(
        title="Load of the trace" if load is None else f"Load {load:g}",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("policy", no_wrap=True)
    table.add_column("knows", no_wrap=True)
    table.add_column("mechanism", no_wrap=True)
    table.add_column("seeds", justify="right", no_wrap=True)
    for column in columns:
        head = column.head.format(baseline=summaries[0].baseline)
        table.add_column(head, justify="right", no_wrap=True)
    for summary in summaries:
        cells = (_cell(column, summary) for column in columns)
        names = summary.policy, summary.regime, summary.mechanism
        table.add_row(*names, str(len(summary.seeds)), *cells)
    return table


def _cell(column: _Column, summary: Summary) -> str:
    source = summary.ratios if column.is_ratio else summary.metrics
    estimate = source.get(column.metric)
    if estimate is None:
        return "-*" if column.is_ratio and summary.not_comparable else "-"
    text, interval = column.show(estimate.mean), estimate.ci95
    if interval is None:
        return text
    if column.is_ratio:
        return f"{text} [{column.show(interval.low)}, {column.show(interval.high)}]"
    if column.with_interval:
        half = time_text(interval.high - estimate.mean, like_s=estimate.mean)
        return f"{text} ± {half.split()[0]}"
    return text
