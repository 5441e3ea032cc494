"""Option values that are one finite number.

click's ranges accept NaN, since every comparison with NaN is false, and infinity if there is no
upper end. No simulation can use them.
"""

from math import isfinite
from typing import Any

import click

MAX_SEED = 2**63 - 1  # seeds are mixed into hashes as eight bytes
SEED = click.IntRange(0, MAX_SEED)


class FiniteRange(click.FloatRange):
    """A range of numbers without NaN and infinity."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """See click.ParamType."""
        number = float(super().convert(value, param, ctx))
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number
