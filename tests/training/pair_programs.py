"""Programs that print steps at a known pace, for the tests of measuring pairs."""

import shlex
import sys

_STEPS = (
    "import sys, time; from itertools import count; every_s = float(sys.argv[1]);"
    " [(time.sleep(every_s), print(sys.argv[2].format(n), flush=True)) for n in count(1)]"
)


def stepping(every_s: float, form: str = "step {}") -> str:
    """Return the command of a program that prints a line for each step.

    Args:
        every_s: between steps, at least.
        form: of a line; {} is the number of steps.
    """
    return shlex.join([sys.executable, "-c", _STEPS, str(every_s), form])


def ending(code: int, text: str) -> str:
    """Return the command of a program that prints a text and ends."""
    return shlex.join([sys.executable, "-c", f"print({text!r}); raise SystemExit({code})"])
