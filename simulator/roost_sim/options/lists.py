"""Option values that are lists: a,b,c. A value named twice counts once.

Each function is a click type: it raises click.BadParameter where it cannot read the text.
"""

from math import inf

import click

from roost_sim.options.numbers import MAX_SEED

_MAX_SEEDS = 100_000


def word_list(text: str) -> tuple[str, ...]:
    """Parse words between commas."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise click.BadParameter(f"{text!r}: want words between commas")
    return tuple(dict.fromkeys(words))


def number_list(text: str) -> tuple[float, ...]:
    """Parse numbers above 0 between commas."""
    try:
        numbers = [float(word) for word in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: want numbers between commas") from error
    if not all(0 < number < inf for number in numbers):
        raise click.BadParameter(f"{text!r}: want numbers above 0")
    return tuple(dict.fromkeys(numbers))


def seed_list(text: str) -> tuple[int, ...]:
    """Parse seeds between commas; 3-7 means 3 to 7."""
    numbers: list[int] = []
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        last = last if dash else first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise click.BadParameter(f"{text!r}: want integers between commas, or 0-9")
        if int(last) > MAX_SEED or int(last) - int(first) >= _MAX_SEEDS:
            raise click.BadParameter(
                f"{text!r}: want at most {_MAX_SEEDS} seeds, each below 2 to the power of 63"
            )
        numbers += range(int(first), int(last) + 1)
    return tuple(dict.fromkeys(numbers))
