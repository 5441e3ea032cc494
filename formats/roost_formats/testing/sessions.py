"""Sessions and a clock for tests: models that answer correctly, wrongly, slowly or not at all."""

from collections.abc import Callable

import numpy as np

from roost_engine.domain.errors import PolicyError
from roost_formats.models.checked_model import Arrays, Session
from roost_formats.models.signature import FLOAT32


class FakeClock:
    """A clock that changes only when a test or a SlowSession sets it."""

    def __init__(self, now_s: float = 100.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now_s


class FakeSession:
    """Answers with a function of the inputs, and records the inputs."""

    def __init__(self, answer: Callable[[Arrays], Arrays]) -> None:
        self.answer = answer
        self.asked: list[Arrays] = []

    def run(self, inputs: Arrays) -> Arrays:
        """See checked_model.Session."""
        self.asked.append(inputs)
        return self.answer(inputs)


class NanSession:
    """Replaces the last number of every float answer of another session."""

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
    """Advances a fake clock, then returns the answer of another session."""

    def __init__(self, session: Session, clock: FakeClock, *took_s: float) -> None:
        """Slow a session down.

        Args:
            session: the other.
            clock: advanced by each answer.
            took_s: the durations of the answers, in order; later answers take no time.
        """
        self.session, self.clock = session, clock
        self.plan(*took_s)

    def plan(self, *took_s: float) -> None:
        """Set the durations of the next answers."""
        self._took_s = list(took_s)

    def run(self, inputs: Arrays) -> Arrays:
        """See checked_model.Session."""
        self.clock.now_s += self._took_s.pop(0) if self._took_s else 0.0
        return self.session.run(inputs)
