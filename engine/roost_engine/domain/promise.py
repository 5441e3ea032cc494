"""By when a job has ended, as far as that is guessed, and by when one starts that waits for it."""

from math import inf

from roost_engine.domain.value import value


@value(kw_only=True)
class Guess:
    """By when a job is taken to have ended, for lack of a time limit that can be used.

    Attributes:
        left_s: from when this was predicted.
        low_s, high_s: 80 % interval of its whole run time, for people.
        is_outlived: whether the job has run for longer.
    """

    left_s: float
    low_s: float
    high_s: float
    is_outlived: bool = False


@value(kw_only=True)
class Promise:
    """The start of a waiting job for which nodes are reserved.

    Attributes:
        first_s: engine time by which it was first promised to start.
        start_s: the same as of now.
        why: why it was moved, for a human; "": it was not.
    """

    first_s: float
    start_s: float
    why: str = ""

    @property
    def until_s(self) -> float | None:
        """By when the job starts, for a human; None: the promise was taken back."""
        return self.start_s if self.start_s < inf else None

    def added_to(self, wanted: str) -> str:
        """Return what a job waits for, with what has become of the promise."""
        return f"{wanted}; {self.why or 'nodes are reserved for it'}"
