"""A replay and a comparison as lines of text for a terminal."""

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from textwrap import wrap

from roost_sim.figures.metrics import TIER_NAMES
from roost_sim.replays.journal_comparison import Column, JournalComparison
from roost_sim.replays.replay import Difference, Replay

_NONE = "-"
_WIDTH = 100


def replay_lines(found: Replay) -> Iterator[str]:
    """Yield the lines of a replay: its runs, then the verdict."""
    rows = [
        (str(run.number), run.version, run.policy, f"{run.events:,}", f"{run.actions:,}")
        for run in found.runs
    ]
    yield from _aligned(("run", "roostd", "policy", "events", "actions"), rows, left=3)
    yield ""
    counts = f"{_count(len(found.runs), 'run')}, {_count(found.event_count, 'event')}"
    counts = f"{counts}, {_count(found.action_count, 'action')}"
    if found.difference is None:
        yield f"{counts}: every action reproduced"
        return
    yield f"{counts} reproduced; then the first difference:"
    yield from _difference_lines(found.difference)


def _difference_lines(difference: Difference) -> Iterator[str]:
    yield (
        f"  run {difference.run}, event {difference.event} (entry {difference.entry}), "
        f"{difference.at}, engine time {difference.at_s:.3f} s"
    )
    yield f"  event     {difference.event_text}"
    for name, actions in (("recorded", difference.recorded), ("got", difference.got)):
        for action in actions or ("nothing",):
            yield f"  {name:<9} {action}"
    if difference.fields:
        yield f"  differs   in {', '.join(difference.fields)}"
    for policy in difference.policies:
        yield f"  policy    {policy}"
    if difference.recorded_version != version("roost"):
        yield (
            f"  roostd {difference.recorded_version} wrote this run and this is "
            f"{version('roost')}: another version may decide otherwise"
        )


def comparison_lines(comparison: JournalComparison) -> Iterator[str]:
    """Yield the lines of a comparison: a table of figures, then what they do and do not cover."""
    columns = [comparison.recorded, comparison.repeated, comparison.simulated]
    shown = [column for column in columns if column is not None]
    heads = ["", "recorded"]
    heads += [f"{column.policy}, simulated" for column in shown[1:]]
    rows = [(name, *cells) for name, *cells in _figure_rows(shown)]
    yield from _aligned(heads, rows, left=1)
    yield ""
    for note in _notes(comparison):
        yield from wrap(note, _WIDTH)


def _figure_rows(columns: Sequence[Column]) -> Iterator[tuple[str, ...]]:
    figures = [column.figures for column in columns]
    yield "jobs compared", *(f"{one.jobs:,}" for one in figures)
    for name in ("wait", "jct"):
        for what in ("avg", "median", "p95"):
            key = f"{what}_{name}_s"
            yield key, *(_number(getattr(one, key), 1) for one in figures)
    yield "link_score", *(_number(one.link_score, 1) for one in figures)
    yield "link_frac", *(_number(one.link_frac, 3) for one in figures)
    for tier, name in enumerate(TIER_NAMES):
        yield name, *(f"{one.tier_counts[tier]:,}" for one in figures)
    changes = [column.placement_changes for column in columns]
    yield "on the same GPUs", *(f"{one.same_gpus:,}" if one else _NONE for one in changes)
    yield "on other GPUs there", *(f"{one.other_gpus:,}" if one else _NONE for one in changes)
    yield "on other nodes", *(f"{one.other_nodes:,}" if one else _NONE for one in changes)
    stops = [column.preemptions for column in columns]
    yield "preemptions", *(_NONE if count is None else f"{count:,}" for count in stops)
    counts = [column.all_jobs for column in columns]
    yield "all jobs", *(_NONE if count is None else f"{count:,}" for count in counts)
    yield "avg_wait_s of all", *(_number(column.all_avg_wait_s, 1) for column in columns)
    yield "avg_jct_s of all", *(_number(column.all_avg_jct_s, 1) for column in columns)


def _notes(comparison: JournalComparison) -> Iterator[str]:
    fates, history = comparison.fates(), comparison.history
    yield (
        f"Not compared: {fates['running']} running and {fates['waiting']} waiting at the end "
        f"(among all), {fates['left']} left the queue without running, {fates['lost']} ended "
        f"unseen, {comparison.unplaced} had no end in a simulation."
    )
    yield (
        f"Kept as recorded: nodes, links, faults, run times, and "
        f"{_count(history.outsider_count, 'job')} that Slurm started without asking."
    )
    late = comparison.simulated.late_starts
    yield (
        f"Simulated: {comparison.start_delay_s:.2f} s from a placement to its start; no load of "
        f"probes; {_count(late, 'job')} first started after the end of the journal."
    )


def _aligned(heads: Sequence[str], rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Align columns under their heads: the first `left` columns to the left, the others right."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = (
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _number(value: float | None, digits: int) -> str:
    return _NONE if value is None else f"{value:,.{digits}f}"
