"""The command `roost-train pairs`: measure a site's own programs, and write its table of pairs."""

import csv
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import astuple, dataclass, field
from pathlib import Path

from roost_train.errors import TrainError
from roost_train.pairs.pair_measuring import PairRow, Speed, Window, pairs_of, rounds, table
from roost_train.pairs.pair_process import STEP_PATTERN, TrainingProcess
from roost_train.text_file import read_text

_HEADS = ("model", "beside", "speed", "spread")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsOptions:
    """What is measured, and how.

    Attributes:
        commands: file with a line `name: command` for each program.
        out: of the table.
        rounds: measurements of each pair, 2 or more: they give the spread.
        window: of each measurement.
        start_s: until which every program must print its steps.
        pattern: a regular expression; its first group is the number of steps.
        has_twins: whether programs are also measured beside themselves; each then runs twice.
    """

    commands: Path
    out: Path
    rounds: int = 3
    window: Window = field(default_factory=Window)
    start_s: float = 600.0
    pattern: str = STEP_PATTERN
    has_twins: bool = True


def run(options: PairsOptions, tell: Callable[[str], None] = lambda line: None) -> str:
    """Measure every pair and write the table.

    Args:
        options: see PairsOptions.
        tell: called with a line for each measurement.

    Returns:
        What is to be printed.

    Raises:
        TrainError: the options or the file are wrong, or a program ended or is too slow.
        OSError: a file cannot be read or written.
    """
    _check(options)
    commands = read_commands(options.commands)
    with ExitStack() as stack:
        fleet = _started(commands, options, stack)
        second = _started(commands, options, stack) if options.has_twins else {}
        pair_count = len(pairs_of(fleet, second))
        each_s = options.window.settle_s + options.window.length_s
        minutes = options.rounds * (len(fleet) + pair_count) * each_s / 60
        tell(f"{len(fleet)} programs, {pair_count} pairs, about {minutes:.0f} minutes")
        speeds = list[Speed]()
        for speed in rounds(fleet, second, options.window, options.rounds):
            speeds.append(speed)
            beside = f"beside {speed.beside}" if speed.beside else "alone"
            tell(f"round {speed.round + 1}: {speed.model} {beside}: {speed.steps_per_s:.4g} a s")
    rows = table(speeds)
    write_table(options.out, rows)
    return f"{len(rows)} ordered pairs of {len(commands)} programs: {options.out}"


def read_commands(path: Path) -> dict[str, str]:
    """Return the command of each program, by the name that users write in `roost:model=`.

    Raises:
        TrainError: with file, line and cure.
        OSError: the file cannot be read.
    """
    found = dict[str, str]()
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, colon, command = (part.strip() for part in line.partition(":"))
        if not (name and colon and command):
            raise TrainError(f"{path}:{number}: want a line `name: command`, got {line!r}")
        if not re.fullmatch(r"[\w.+-]+", name):
            raise TrainError(
                f"{path}:{number}: {name!r}: want a name of letters, digits, and . _ + -"
            )
        if name.lower() in (known.lower() for known in found):
            raise TrainError(f"{path}:{number}: {name} is there already; names count in any case")
        found[name] = command
    if not found:
        raise TrainError(f"{path}: no line `name: command`")
    return found


def write_table(path: Path, rows: list[PairRow]) -> None:
    """Write the table that `sharing.pairs` names; a speed above 1 is noise, and counts as 1."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_HEADS)
        for row in rows:
            model, beside, speed, spread = astuple(row)
            writer.writerow([model, beside, f"{min(speed, 1.0):.4g}", f"{min(spread, 1.0):.4g}"])


def _check(options: PairsOptions) -> None:
    if options.rounds < 2:
        raise TrainError(f"--rounds {options.rounds}: want 2 or more; they give the spread")
    try:
        groups = re.compile(options.pattern).groups
    except re.error as error:
        raise TrainError(f"--pattern {options.pattern!r}: {error}") from error
    if groups < 1:
        raise TrainError(f"--pattern {options.pattern!r}: want a group around the number of steps")


def _started(
    commands: Mapping[str, str], options: PairsOptions, stack: ExitStack
) -> dict[str, TrainingProcess]:
    """Start every program, one after the other, and stop it once it trains."""
    found = dict[str, TrainingProcess]()
    for name, command in commands.items():
        process = TrainingProcess(name, command, options.pattern)
        stack.callback(process.end)
        process.wait_until_training(options.start_s)
        process.stop()
        found[name] = process
    return found
