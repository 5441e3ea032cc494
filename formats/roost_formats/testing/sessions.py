"""Sessions and a clock for tests: models that answer rightly, wrongly, late or not at all."""

from collections.abc import Callable

import numpy as np

from roost_engine.domain.errors import PolicyError
from roost_formats.models.checked_model import Arrays, Session
from roost_formats.models.signature import FLOAT32


class FakeClock:
    """Stands still until a test or a SlowSession moves it."""

    def __init__(self, now_s: float = 100.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now_s


class FakeSession:
    """Answers what a function makes of the inputs; records what it was asked."""

    def __init__(self, answer: Callable[[Arrays], Arrays]) -> None:
        self.answer = answer
        self.asked: list[Arrays] = []

    def run(self, inputs: Arrays) -> Arrays:
        """See checked_model.Session."""
        self.asked.append(inputs)
        return self.answer(inputs)


class NanSession:
    """Spoils the last number of every float answer of another session."""

    def __init__(self, session: Session, value: float = np.nan) -> None:
        self.session, self.value = session, value

    def run(self, inputs: Arrays) -> Arrays:
        """See checked_model.Session."""
        answers = {name: array.copy() for name, array in self.session.run(inputs).items()}
        for array in answers.values():
            if array.dtype == FLOAT32:
                array[..., -1:] = self.value
        return answers


class ShortSession:
    """Leaves out the last item of every answer of another session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def run(self, inputs: Arrays) -> Arrays:
        """See checked_model.Session."""
        return {name: array[:-1] for name, array in self.session.run(inputs).items()}


class FailingSession:
    """Cannot answer."""

    def __init__(self, reason: str = "onnxruntime failed: broken") -> None:
        self.reason = reason

    def run(self, inputs: Arrays) -> Arrays:
        """See checked_model.Session."""
        raise PolicyError(self.reason)


class SlowSession:
    """Takes a time by a fake clock before it passes on the answer of another session."""

    def __init__(self, session: Session, clock: FakeClock, *took_s: float) -> None:
        """Slow a session down.

        Args:
            session: the other.
            clock: moved by each answer.
            took_s: what the answers take, one after the other; later ones take no time.
        """
        self.session, self.clock = session, clock
        self.plan(*took_s)

    def plan(self, *took_s: float) -> None:
        """Set what the next answers take."""
        self._took_s = list(took_s)

    def run(self, inputs: Arrays) -> Arrays:
        """See checked_model.Session."""
        self.clock.now_s += self._took_s.pop(0) if self._took_s else 0.0
        return self.session.run(inputs)
