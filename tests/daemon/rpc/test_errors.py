"""Errors as gRPC codes: every error of Roost has one, and only faults of Roost are INTERNAL."""

from collections.abc import Iterator
from typing import NoReturn

import grpc
import pytest
import structlog

from roost_engine.domain import errors
from roost_engine.domain.errors import (
    ConfigError,
    JournalError,
    PolicyError,
    ProbeError,
    RoostError,
    SlurmError,
    SlurmRefused,
    SlurmTimeout,
    TimerError,
    TopologyError,
    UnknownJob,
    UnknownNode,
)
from roostd.rpc.errors import (
    STATUS_CODES,
    Context,
    NoTimers,
    UnknownTopology,
    abort,
    status_code,
)


class Aborted(Exception):
    """Raised by the fake call, as grpc does."""


class FakeCall:
    """A call that keeps how it was ended."""

    def __init__(self) -> None:
        self.ended: tuple[grpc.StatusCode, str] | None = None

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        self.ended = code, details
        raise Aborted


async def ended(error: RoostError) -> tuple[grpc.StatusCode, str] | None:
    call = FakeCall()
    context: Context = call  # type: ignore[assignment]
    with pytest.raises(Aborted):
        await abort(context, error)
    return call.ended


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownNode("n9"), grpc.StatusCode.NOT_FOUND),
        (UnknownJob("9"), grpc.StatusCode.NOT_FOUND),
        (TimerError("no timer"), grpc.StatusCode.INVALID_ARGUMENT),
        (NoTimers("no timers"), grpc.StatusCode.FAILED_PRECONDITION),  # a TimerError too
        (UnknownTopology("no probe"), grpc.StatusCode.FAILED_PRECONDITION),
        (SlurmRefused(("scontrol",), 1, "no"), grpc.StatusCode.FAILED_PRECONDITION),
        (SlurmTimeout(("scontrol",), 1.0), grpc.StatusCode.UNAVAILABLE),
        (JournalError("disk full"), grpc.StatusCode.FAILED_PRECONDITION),
        (ConfigError(["a: b"]), grpc.StatusCode.FAILED_PRECONDITION),
        (PolicyError("broken model"), grpc.StatusCode.INTERNAL),
    ],
)
async def test_a_call_ends_with_the_code_and_text_of_its_error(
    error: RoostError, code: grpc.StatusCode
) -> None:
    with structlog.testing.capture_logs() as logs:
        assert await ended(error) == (code, str(error))
    is_our_fault = code is grpc.StatusCode.INTERNAL
    assert [entry["event"] for entry in logs] == (["call_failed"] if is_our_fault else [])


def every_error() -> Iterator[type[RoostError]]:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, RoostError):
            yield kind


def test_an_error_is_listed_before_its_parents_or_its_code_would_be_theirs() -> None:
    listed = [kind for kind, _ in STATUS_CODES]
    for place, kind in enumerate(listed):
        assert not any(issubclass(later, kind) for later in listed[place + 1 :]), kind


@pytest.mark.parametrize("kind", sorted(every_error(), key=str))
def test_every_error_but_the_root_and_broken_policies_has_a_code_that_callers_can_act_on(
    kind: type[RoostError],
) -> None:
    code = status_code(kind.__new__(kind))
    assert (code is grpc.StatusCode.INTERNAL) is (kind in (RoostError, PolicyError))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UnknownNode("n"), grpc.StatusCode.NOT_FOUND),
        (UnknownJob("1"), grpc.StatusCode.NOT_FOUND),
        (ProbeError("sm_frac", "NaN"), grpc.StatusCode.INVALID_ARGUMENT),
        (TopologyError("f", 1, "x"), grpc.StatusCode.INVALID_ARGUMENT),
        (ConfigError(["x"]), grpc.StatusCode.FAILED_PRECONDITION),
        (SlurmTimeout(["scontrol"], 1.0), grpc.StatusCode.UNAVAILABLE),
        (SlurmRefused(["scontrol"], 1, ""), grpc.StatusCode.FAILED_PRECONDITION),
        (SlurmError("x"), grpc.StatusCode.UNAVAILABLE),
        (JournalError("x"), grpc.StatusCode.FAILED_PRECONDITION),
        (PolicyError("x"), grpc.StatusCode.INTERNAL),
        (RoostError("x"), grpc.StatusCode.INTERNAL),
    ],
)
def test_an_error_has_the_code_of_its_kind(error: RoostError, code: grpc.StatusCode) -> None:
    assert status_code(error) is code
