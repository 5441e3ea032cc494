"""Calls in flight: one user's flood takes the places of no other user."""

import os
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from roostd.rpc.access.in_flight import CallsInFlight
from roostd.rpc.access.limits import MOST_CALLS, MOST_CALLS_PER_USER, SPARE_CALLS_OF_ROOT
from roostd.rpc.errors import Handler

ROOT = 0


class Refused(Exception):
    """The call was ended with a code."""


class Call:
    """The context of a call by a user; it ends when `end` is called."""

    def __init__(self, uid: int | None) -> None:
        named = f"unix-abstract:roostd-{0:016x}-uid-{uid}-pid-1"
        self._peer = "ipv4:127.0.0.1:4711" if uid is None else named
        self.code: grpc.StatusCode | None = None
        self.why = ""
        self.end: Callable[[], object] = lambda: None

    def peer(self) -> str:
        return self._peer

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self.end = lambda: callback(self)

    async def abort(self, code: grpc.StatusCode, why: str) -> None:
        self.code, self.why = code, why
        raise Refused


async def served(calls: CallsInFlight, uid: int | None) -> Call:
    """Return a call that was answered but not sent, or refused."""

    async def handle(request: Any, context: Any) -> str:
        return "answer"

    async def find(details: Any) -> Handler:
        return grpc.unary_unary_rpc_method_handler(handle)

    handler: Any = await calls.intercept_service(find, None)  # type: ignore[arg-type]
    call = Call(uid)
    try:
        assert await handler.unary_unary(None, call) == "answer"
    except Refused:
        assert call.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    return call


@pytest.mark.parametrize("uid", [60_001, None])
async def test_a_user_s_flood_is_refused_and_no_other_user_s_call(uid: int | None) -> None:
    calls = CallsInFlight()
    flood = [await served(calls, uid) for _ in range(3 * MOST_CALLS)]
    assert sum(call.code is None for call in flood) == MOST_CALLS_PER_USER
    assert "16 calls that are not answered yet" in flood[-1].why
    for other in (60_002, ROOT, os.geteuid()):
        assert (await served(calls, other)).code is None


async def test_a_call_counts_until_its_answer_is_sent() -> None:
    calls = CallsInFlight()
    flood = [await served(calls, 1) for _ in range(MOST_CALLS_PER_USER)]
    assert (await served(calls, 1)).code is not None
    flood[0].end()
    assert (await served(calls, 1)).code is None
    assert (await served(calls, 1)).code is not None


async def test_root_is_answered_when_all_places_of_users_are_taken() -> None:
    calls = CallsInFlight()
    taken = [await served(calls, uid) for uid in range(1, 10) for _ in range(MOST_CALLS_PER_USER)]
    assert sum(call.code is None for call in taken) == MOST_CALLS
    assert (await served(calls, 77)).code is not None
    of_root = [await served(calls, ROOT) for _ in range(SPARE_CALLS_OF_ROOT + 1)]
    assert [call.code is None for call in of_root] == [True] * SPARE_CALLS_OF_ROOT + [False]
    for call in taken:
        if call.code is None:
            call.end()
    assert (await served(calls, 77)).code is None
