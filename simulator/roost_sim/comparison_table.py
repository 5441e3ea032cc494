"""A comparison as a table for a terminal."""

from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table

from roost_sim.comparison import TIMES_BOUND, Comparison, Summary
from roost_sim.intervals import Estimate

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True, slots=True)
class _Column:
    head: str
    metric: str
    show: Callable[[float], str]
    with_interval: bool = False


def time_text(seconds: float, like_s: float | None = None) -> str:
    """Three digits and a unit: 41.2 s, 13.7 min, 5.08 h, 12.4 d.

    Args:
        seconds: to show.
        like_s: take the unit that this would have; None: its own.
    """
    size_s = abs(seconds if like_s is None else like_s)
    length_s, unit = next((pair for pair in _UNITS if size_s >= pair[0]), _UNITS[-1])
    return f"{_three_digits(seconds / length_s)} {unit}"


def _three_digits(value: float) -> str:
    return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f}"


def percent_text(frac: float) -> str:
    """A fraction as percent."""
    return f"{100 * frac:.1f} %"


_COLUMNS = (
    _Column("avg JCT", "avg_jct_s", time_text, with_interval=True),
    _Column("p95", "p95_jct_s", time_text),
    _Column("p99", "p99_jct_s", time_text),
    _Column("queue", "avg_queue_s", time_text),
    _Column("makespan", "makespan_s", time_text),
    _Column("occupancy", "occupancy", percent_text),
    _Column("comm share", "comm_share", percent_text),
    _Column("preemptions", "preemptions", lambda value: f"{value:.0f}"),
    _Column("× bound", TIMES_BOUND, lambda value: f"{value:.2f}"),
)


def tables_of(comparison: Comparison) -> list[Table]:
    """One table a load. Times are means over seeds; ± is half of the 95 % interval."""
    loads = dict.fromkeys(summary.load for summary in comparison.summaries)
    return [
        _table(load, [summary for summary in comparison.summaries if summary.load == load])
        for load in loads
    ]


def _table(load: float | None, summaries: list[Summary]) -> Table:
    baseline = summaries[0].baseline
    table = Table(
        title="Load of the trace" if load is None else f"Load {load:g}",
        title_justify="left",
        box=None,
        pad_edge=False,
    )
    table.add_column("policy", no_wrap=True)
    table.add_column("knows", no_wrap=True)
    table.add_column("seeds", justify="right")
    for column in _COLUMNS[:1]:
        table.add_column(column.head, justify="right", no_wrap=True)
    table.add_column(f"÷ {baseline}", justify="right", no_wrap=True)
    for column in _COLUMNS[1:]:
        table.add_column(column.head, justify="right", no_wrap=True)
    for summary in summaries:
        first, *others = (_cell(column, summary.metrics.get(column.metric)) for column in _COLUMNS)
        ratio = _ratio_text(summary.ratios.get("avg_jct_s"))
        seeds = str(len(summary.seeds))
        table.add_row(summary.policy, summary.regime, seeds, first, ratio, *others)
    return table


def _cell(column: _Column, estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    text = column.show(estimate.mean)
    if column.with_interval and estimate.ci95 is not None:
        half = time_text(estimate.ci95.high - estimate.mean, like_s=estimate.mean)
        return f"{text} ± {half.split()[0]}"
    return text


def _ratio_text(ratio: Estimate | None) -> str:
    if ratio is None:
        return "-"
    if ratio.ci95 is None:
        return f"{ratio.mean:.2f}"
    return f"{ratio.mean:.2f} [{ratio.ci95.low:.2f}, {ratio.ci95.high:.2f}]"
