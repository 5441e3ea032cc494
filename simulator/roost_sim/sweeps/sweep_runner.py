"""The sweep runner: runs a sweep to its end or to Ctrl-C, saves results and shows progress."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from roost_sim.sweeps.results_file import (
    ResultsWriter,
    appending,
    facts_of,
    read_results,
    unfinished,
)
from roost_sim.sweeps.sweep import Case, Done, Failed, Finished, Sweep, SweepEngine

_LINES = 10  # of progress, where stderr is no terminal


@dataclass(slots=True)
class Collected:
    """The finished cases, also of an interrupted sweep."""

    done: list[Done] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    is_interrupted: bool = False


class Meter(Protocol):
    """Shows the progress of a sweep."""

    def begin(self, count: int, ready: int) -> None:
        """Begin with the number of all cases, and of those that are ready from the start."""

    def advance(self, finished: Finished) -> None:
        """Count one more finished case."""


def collect(
    engine: SweepEngine,
    sweep: Sweep,
    cases: Sequence[Case],
    results_path: Path | None,
    meter: Meter,
) -> Collected:
    """Perform the cases that the results file lacks; after Ctrl-C return the finished ones.

    Raises:
        SimError: the results file or the engine cannot be used.
    """
    collected = Collected()
    appender: AbstractContextManager[ResultsWriter | None] = nullcontext()
    if results_path is not None:
        facts = facts_of(sweep)
        wanted = set(cases)
        collected.done += [run for run in read_results(results_path, facts) if run.case in wanted]
        appender = appending(results_path, facts)
    todo = unfinished(cases, collected.done)
    with appender as writer:
        try:
            meter.begin(len(cases), len(cases) - len(todo))
            with closing(engine.perform(sweep, todo)) as running:
                for finished in running:
                    _collect_one(finished, collected, writer)
                    meter.advance(finished)
        except KeyboardInterrupt:
            collected.is_interrupted = True
    return collected


@contextmanager
def shown_progress() -> Iterator[Meter]:
    """Show a bar on a terminal, up to ten lines in a file; both on stderr."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _LineMeter(console)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        yield _BarMeter(progress)


def _collect_one(finished: Finished, collected: Collected, writer: ResultsWriter | None) -> None:
    if isinstance(finished, Failed):
        collected.failed.append(finished)
        return
    if writer is not None:
        writer.write(finished)
    collected.done.append(finished)


@dataclass(slots=True)
class _BarMeter:
    progress: Progress
    task: TaskID | None = None

    def begin(self, count: int, ready: int) -> None:
        self.task = self.progress.add_task("runs", total=count, completed=ready)

    def advance(self, finished: Finished) -> None:
        assert self.task is not None
        self.progress.update(self.task, advance=1, description=str(finished.case))


@dataclass(slots=True)
class _LineMeter:
    console: Console
    count: int = 0
    ready: int = 0

    def begin(self, count: int, ready: int) -> None:
        self.count, self.ready = count, ready
        if ready:
            self._print()

    def advance(self, finished: Finished) -> None:
        before, self.ready = self.ready, self.ready + 1
        if before * _LINES // self.count != self.ready * _LINES // self.count:
            self._print()

    def _print(self) -> None:
        line = f"roost-sim: {self.ready} of {self.count} runs"
        self.console.print(line, highlight=False, soft_wrap=True)
