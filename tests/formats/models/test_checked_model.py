from collections.abc import Callable

import numpy as np
import pytest

from roost_engine.domain.errors import PolicyError
from roost_formats.models.checked_model import Array, Arrays, CheckedModel, Session
from roost_formats.models.signature import INT64, Budget, Signature, Tensor
from roost_formats.testing.sessions import (
    FailingSession,
    FakeClock,
    FakeSession,
    NanSession,
    ShortSession,
    SlowSession,
)

PLACE = Signature(
    kind="place",
    title="a placement policy",
    schema_version=1,
    batch=("gpu", "link"),
    inputs=(
        Tensor(name="gpus", sizes=("gpu", 3)),
        Tensor(name="ends", sizes=("link", 2), dtype=INT64),
        Tensor(name="speed", sizes=("link",)),
    ),
    outputs=(
        Tensor(name="worth", sizes=("gpu",)),
        Tensor(name="choice", sizes=("link", 2), dtype=INT64),
    ),
    canary_tolerance=1e-5,
    budget=Budget(answer_s=0.010, slow_limit=2, out_of_service_s=30.0),
)


def batch(gpus: int = 4, links: int = 6) -> dict[str, Array]:
    return {
        "gpus": np.arange(gpus * 3, dtype=np.float32).reshape(gpus, 3),
        "ends": np.zeros((links, 2), np.int64),
        "speed": np.ones(links, np.float32),
    }


def answer(inputs: Arrays) -> Arrays:
    return {"worth": inputs["gpus"].sum(axis=1), "choice": inputs["ends"] + 1}


def changed(name: str, change: Callable[[Array], Array]) -> FakeSession:
    """A session one of whose outputs is changed."""
    return FakeSession(lambda inputs: {**answer(inputs), name: change(answer(inputs)[name])})


def watched(session: Session, clock: FakeClock | None = None) -> CheckedModel:
    return CheckedModel(session, PLACE, sha256="ab" * 32, columns={}, clock=clock or FakeClock())


def test_gives_every_output_under_its_name() -> None:
    answers = watched(FakeSession(answer)).ask(batch())
    assert answers["worth"].tolist() == [3.0, 12.0, 21.0, 30.0]
    assert answers["choice"].tolist() == [[1, 1]] * 6


def test_is_named_for_the_file() -> None:
    assert watched(FakeSession(answer)).name == "onnx:abababababab"


def test_a_column_stands_for_an_output_of_one_dimension() -> None:
    session = changed("worth", lambda worth: worth[:, None])
    assert watched(session).ask(batch())["worth"].tolist() == [3.0, 12.0, 21.0, 30.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpus": np.zeros((4, 3), np.float64)}, r"gpus are float64\[4, 3\]; want float32\[gpu, 3"),
        ({"gpus": np.zeros((4, 2), np.float32)}, r"float32\[4, 2\]; want float32\[gpu, 3\]"),
        ({"gpus": np.zeros(4, np.float32)}, r"gpus are float32\[4\]"),
        ({"ends": np.zeros((6, 2), np.float32)}, r"ends are float32\[6, 2\]; want int64\[link, 2"),
        ({"speed": np.ones(5, np.float32)}, r"speed is float32\[5\]; want float32\[6\]"),
        ({"speed": np.full(6, np.nan, np.float32)}, "speed holds NaN or infinity"),
        ({"gpus": np.full((4, 3), np.inf, np.float32)}, "gpus hold NaN or infinity"),
        ({"other": np.ones(1, np.float32)}, "inputs are gpus, ends, speed, other; want gpus, ends"),
    ],
)
def test_refuses_inputs_before_the_model_is_asked(change: dict[str, Array], message: str) -> None:
    session = FakeSession(answer)
    with pytest.raises(PolicyError, match=message):
        watched(session).ask(batch() | change)
    assert not session.asked


def test_refuses_a_missing_input() -> None:
    inputs = batch()
    del inputs["ends"]
    with pytest.raises(PolicyError, match="the inputs are gpus, speed; want gpus, ends, speed"):
        watched(FakeSession(answer)).ask(inputs)


@pytest.mark.parametrize(
    ("session", "message"),
    [
        (FailingSession(), "onnxruntime failed"),
        (
            ShortSession(FakeSession(answer)),
            r"float32\[3\] in worth to 4 gpus and 6 links; want",
        ),
        (changed("choice", lambda c: c[:, :1]), r"int64\[6, 1\] in choice to .*int64\[6, 2\]"),
        (changed("choice", lambda c: c.astype(np.float32)), r"answered float32\[6, 2\] in choice"),
        (NanSession(FakeSession(answer)), "answered NaN or infinity in worth"),
        (NanSession(FakeSession(answer), -np.inf), "answered NaN or infinity in worth"),
        (FakeSession(lambda inputs: {"worth": inputs["gpus"][:, 0]}), "no output 'choice'"),
    ],
)
def test_refuses_answers(session: Session, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        watched(session).ask(batch())


def test_an_empty_answer_needs_no_model() -> None:
    session = FakeSession(answer)
    answers = watched(session).ask(batch(gpus=0, links=0))
    assert {name: (array.shape, array.dtype) for name, array in answers.items()} == {
        "worth": ((0,), np.float32),
        "choice": ((0, 2), INT64),
    }
    assert not session.asked


def test_an_answer_that_is_partly_empty_needs_one() -> None:
    session = FakeSession(answer)
    assert watched(session).ask(batch(links=0))["worth"].shape == (4,)
    assert len(session.asked) == 1


def test_slow_answers_cost_a_rest_that_the_signature_sets() -> None:
    clock, session = FakeClock(), FakeSession(answer)
    model = watched(SlowSession(session, clock, 0.011, 0.011), clock)
    model.ask(batch())
    with pytest.raises(PolicyError, match=r"took 11.0 ms, more than 10 ms 2 times in a row; out o"):
        model.ask(batch())
    clock.now_s += 29
    with pytest.raises(PolicyError, match="out of service for 1 s: it was too slow"):
        model.ask(batch())
    assert len(session.asked) == 2
    clock.now_s += 1
    model.ask(batch())
    model.ask(batch())


def test_an_answer_within_the_budget_is_not_slow() -> None:
    clock = FakeClock()
    model = watched(SlowSession(FakeSession(answer), clock, *[0.009] * 5), clock)
    for _ in range(5):
        model.ask(batch())
