"""The one table from Roost's errors to gRPC codes, and the interceptor that applies it."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError

from roost_engine.domain.errors import (
    ConfigError,
    JournalError,
    PolicyError,
    PolicyRefused,
    ProbeError,
    RoostError,
    SlurmError,
    SlurmRefused,
    TimerError,
    TopologyError,
    UnknownJob,
    UnknownNode,
    UnknownPolicy,
)

_log = structlog.get_logger(__name__)


class NoTimers(TimerError):
    """The gate in service has no timers that could be set."""


class UnknownPartition(RoostError):
    """A request names a partition that neither Slurm nor the configuration has."""


class NoForecast(RoostError):
    """Nothing is known of when a job starts; the text says why."""


class UnknownTopology(RoostError):
    """No probe has reported how the GPUs of a node are linked; the text states the cure."""


# The first class that matches counts, so subclasses stand before their parents.
STATUS_CODES: tuple[tuple[type[RoostError], grpc.StatusCode], ...] = (
    (UnknownNode, grpc.StatusCode.NOT_FOUND),
    (UnknownJob, grpc.StatusCode.NOT_FOUND),
    (UnknownPolicy, grpc.StatusCode.NOT_FOUND),
    (UnknownPartition, grpc.StatusCode.NOT_FOUND),
    (PolicyRefused, grpc.StatusCode.FAILED_PRECONDITION),
    (UnknownTopology, grpc.StatusCode.FAILED_PRECONDITION),
    (NoForecast, grpc.StatusCode.FAILED_PRECONDITION),
    (NoTimers, grpc.StatusCode.FAILED_PRECONDITION),
    (TimerError, grpc.StatusCode.INVALID_ARGUMENT),
    (ProbeError, grpc.StatusCode.INVALID_ARGUMENT),
    (TopologyError, grpc.StatusCode.INVALID_ARGUMENT),
    (ConfigError, grpc.StatusCode.FAILED_PRECONDITION),
    (SlurmRefused, grpc.StatusCode.FAILED_PRECONDITION),
    (SlurmError, grpc.StatusCode.UNAVAILABLE),
    (JournalError, grpc.StatusCode.FAILED_PRECONDITION),
    (PolicyError, grpc.StatusCode.INTERNAL),
    (RoostError, grpc.StatusCode.INTERNAL),
)


def status_code(error: RoostError) -> grpc.StatusCode:
    """Return the gRPC code of an error."""
    return next(code for kind, code in STATUS_CODES if isinstance(error, kind))


class Undecodable:
    """Takes the place of a message whose bytes were no protobuf of its type.

    Attributes:
        problem: the decoder's error.
    """

    def __init__(self, problem: str) -> None:
        self.problem = problem


if TYPE_CHECKING:  # grpc's classes are generic only in its type stubs
    Handler: TypeAlias = grpc.RpcMethodHandler[Any, Any] | None
    Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
else:
    Handler, Context = grpc.RpcMethodHandler | None, grpc.aio.ServicerContext
_Request = TypeVar("_Request")
_Response = TypeVar("_Response")


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Answers errors with the codes of STATUS_CODES.

    Without it grpc answers UNKNOWN with the text of the exception, also to bytes that are no
    protobuf (measured with grpcio 1.85).
    """

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        """See grpc.aio.ServerInterceptor."""
        handler: Any = await continuation(handler_call_details)
        if handler is None:
            return None
        replaced: dict[str, Any] = {"request_deserializer": _tolerant(handler.request_deserializer)}
        if handler.unary_unary is not None:
            replaced["unary_unary"] = _translated(handler.unary_unary)
        answer: Handler = handler._replace(**replaced)
        return answer


def _tolerant(decode: Callable[[bytes], _Request]) -> Callable[[bytes], _Request | Undecodable]:
    def decode_or_mark(data: bytes) -> _Request | Undecodable:
        try:
            return decode(data)
        except DecodeError as error:
            return Undecodable(str(error))

    return decode_or_mark


def _translated(
    handle: Callable[[_Request, Context], Awaitable[_Response]],
) -> Callable[[_Request | Undecodable, Context], Awaitable[_Response]]:
    async def answer(request: _Request | Undecodable, context: Context) -> _Response:
        if isinstance(request, Undecodable):
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a message of this method")
        try:
            return await handle(request, context)
        except RoostError as error:
            await abort(context, error)

    return answer


async def abort(context: Context, error: RoostError) -> NoReturn:
    """End a call with the code and the text of an error."""
    code = status_code(error)
    if code is grpc.StatusCode.INTERNAL:
        _log.error("call_failed", error=str(error))
    await context.abort(code, str(error))
