import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_formats.models.checked_model import Arrays
from roost_formats.testing.sessions import (
    FailingSession,
    FakeClock,
    FakeSession,
    NanSession,
    ShortSession,
    SlowSession,
)

INPUTS: Arrays = {"x": np.array([1.0, 2.0], np.float32)}


def doubling() -> FakeSession:
    return FakeSession(lambda inputs: {"y": inputs["x"] * 2})


def test_a_session_answers_and_records_what_it_was_asked() -> None:
    session = doubling()
    assert session.run(INPUTS)["y"].tolist() == [2.0, 4.0]
    assert session.asked == [INPUTS]


def test_answers_are_spoiled_without_touching_the_other_sessions() -> None:
    session = doubling()
    assert np.isnan(NanSession(session).run(INPUTS)["y"]).tolist() == [False, True]
    assert NanSession(session, np.inf).run(INPUTS)["y"].tolist() == [2.0, np.inf]
    assert ShortSession(session).run(INPUTS)["y"].tolist() == [2.0]
    assert session.run(INPUTS)["y"].tolist() == [2.0, 4.0]


def test_a_failing_session_gives_its_reason() -> None:
    with pytest.raises(PolicyError, match="no luck"):
        FailingSession("no luck").run(INPUTS)


def test_a_slow_session_advances_the_clock_by_its_plan() -> None:
    clock = FakeClock(10.0)
    session = SlowSession(doubling(), clock, 0.5, 0.25)
    times = []
    for _ in range(3):
        session.run(INPUTS)
        times.append(clock())
    assert times == [10.5, 10.75, 10.75]
