"""`roost-sim replay`: replays a production journal, as it was or under another policy."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from roost_sim.catalogue.composition import Composition
from roost_sim.catalogue.compositions import find_policy
from roost_sim.exit_codes import EXIT_NO
from roost_sim.options.completion import policy_names
from roost_sim.options.numbers import SEED
from roost_sim.replays import replay as repeating
from roost_sim.replays.journal_comparison import compare_with, comparison_document, read_history
from roost_sim.replays.recording import ModelShelf, Recording
from roost_sim.replays.replay_tables import comparison_lines, replay_lines

_LONG_EVENTS = 20_000  # a few seconds


@click.command(
    short_help="Repeat a journal of roostd, and compare.",
    epilog="""\b
Examples: roost-sim replay /var/lib/roost/journal.sqlite
          roost-sim replay /var/lib/roost --policy sjf --json
\b
Exit codes: 0 done, 1 an action was not reproduced,
            2 the journal, a model or an option is wrong""",
)
@click.argument("journal", type=click.Path(path_type=Path))
@click.option(
    "--policy",
    "policy_name",
    metavar="NAME",
    shell_complete=policy_names,
    help="What if: simulate the recorded jobs under this policy, a name of `roost-sim policies` or "
    "order+placement+gate+preemption.",
)
@click.option(
    "--model",
    "model_paths",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A model that the journal was recorded with; the packaged one is found by itself.",
)
@click.option("--seed", type=SEED, default=0, show_default=True, help="Of what the policy draws.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_context
def replay(
    ctx: click.Context,
    journal: Path,
    policy_name: str | None,
    model_paths: tuple[Path, ...],
    seed: int,
    as_json: bool,
) -> None:
    """Repeat a journal of roostd and compare every action with the recorded one.

    JOURNAL is roostd's journal.sqlite, or the folder that has it. It is only read; roostd may be
    writing it.

    With --policy the journal's jobs are simulated under another policy instead, and what would have
    become of them is shown beside what did. Run times are the recorded ones wherever a job goes.
    """
    policy = None if policy_name is None else find_policy(policy_name)
    models = ModelShelf(model_paths)
    with Recording(journal) as recording:
        if policy is not None:
            _what_if(recording, models, policy, seed, as_json)
        elif not _repeat(recording, models, as_json):
            ctx.exit(EXIT_NO)


def _repeat(recording: Recording, models: ModelShelf, as_json: bool) -> bool:
    """Whether every action was reproduced."""
    with _progress("repeating", recording.event_count) as progress:
        found = repeating.replay(recording, models, progress)
    if as_json:
        _print({"journal": str(recording.path), **repeating.replay_document(found)})
    else:
        click.echo("\n".join(replay_lines(found)))
    return found.difference is None


def _what_if(
    recording: Recording, models: ModelShelf, policy: Composition, seed: int, as_json: bool
) -> None:
    with _progress("reading", recording.event_count) as progress:
        history = read_history(recording, progress)
    comparison = compare_with(recording, history, policy, models, seed=seed)
    if comparison.repeated_fault:
        click.echo(
            f"roost-sim: the recorded policy is not simulated: {comparison.repeated_fault}",
            err=True,
        )
    if as_json:
        _print({"journal": str(recording.path), **comparison_document(comparison)})
    else:
        click.echo("\n".join(comparison_lines(comparison)))


def _print(document: dict[str, object]) -> None:
    click.echo(json.dumps(document, allow_nan=False))


@contextmanager
def _progress(what: str, event_count: int) -> Iterator[repeating.EventCounter]:
    """Show a bar on stderr for a long journal, if stderr is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    is_silent = not console.is_terminal or event_count < _LONG_EVENTS
    with Progress(*columns, console=console, transient=True, disable=is_silent) as bar:
        task = bar.add_task(what, total=event_count)
        yield lambda count: bar.advance(task, count)
