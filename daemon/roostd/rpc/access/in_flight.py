"""Limits the calls of each user that are answered at the same time, so that no user crowds others.

gRPC's own limit of calls counts all callers together, and a flood of one user used it up.
"""

import os
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from roostd.rpc.access.limits import MOST_CALLS, MOST_CALLS_PER_USER, SPARE_CALLS_OF_ROOT
from roostd.rpc.access.socket_front import uid_of
from roostd.rpc.errors import Context, Handler


class CallsInFlight(grpc.aio.ServerInterceptor):
    """Refuses a call of a user that has MOST_CALLS_PER_USER of them, and more than MOST_CALLS.

    A call counts until its answer is sent: a client that does not read keeps its own places only.
    Callers over TCP are one user, since that port does not say which user calls.
    """

    def __init__(self) -> None:
        self._count = Counter[int | None]()

    def admit(self, uid: int | None) -> bool:
        """Return whether one more call of this user may begin, and count it if so."""
        if uid in (0, os.geteuid()):
            is_free = self._count.total() < MOST_CALLS + SPARE_CALLS_OF_ROOT
        else:
            is_free = self._count.total() < MOST_CALLS and self._count[uid] < MOST_CALLS_PER_USER
        if is_free:
            self._count[uid] += 1
        return is_free

    def end(self, uid: int | None) -> None:
        """Undo the count of `admit`."""
        self._count[uid] -= 1
        if self._count[uid] <= 0:
            del self._count[uid]

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """See grpc.aio.ServerInterceptor."""
        handler: Any = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler  # type: ignore[no-any-return]
        answer: Handler = handler._replace(unary_unary=self._counted(handler.unary_unary))
        return answer

    def _counted(
        self, handle: Callable[[Any, Context], Awaitable[Any]]
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        async def answer(request: Any, context: Context) -> Any:
            uid = uid_of(context)
            if not self.admit(uid):
                await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, _why(uid))
            # A plain function is right: the stubs name a class, which is no Protocol.
            context.add_done_callback(lambda _: self.end(uid))  # type: ignore[arg-type]
            return await handle(request, context)

        return answer


def _why(uid: int | None) -> str:
    user = "callers over TCP have" if uid is None else "this user has"
    return (
        f"{user} {MOST_CALLS_PER_USER} calls that are not answered yet, or all users together"
        f" {MOST_CALLS}; ask again when one is"
    )
