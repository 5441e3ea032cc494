"""The daemon's event loop: asyncio's, with one turn for all messages that gRPC has received.

gRPC's own thread writes a byte to a socket pair for each message, and its reader in the loop takes
one byte a turn, though it then handles every message that is there (grpcio 1.85,
PollerCompletionQueue). With 10,000 probes that is thousands of empty turns a second, and once 278
bytes wait, gRPC's thread stands still. Here the other bytes are read with the first.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVarTuple

if TYPE_CHECKING:
    from _typeshed import HasFileno

_Arguments = TypeVarTuple("_Arguments")
_READER = "_handle_events"
_MOST = 4_096


class EventLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def add_reader(
        self, fd: "int | HasFileno", callback: Callable[[*_Arguments], Any], *args: *_Arguments
    ) -> None:
        """See asyncio.AbstractEventLoop."""
        reader = getattr(callback, "func", callback)  # gRPC gives a functools.partial
        if isinstance(fd, socket.socket) and getattr(reader, "__name__", "") == _READER:
            super().add_reader(fd, _read_all_but_one, fd, callback, *args)
        else:
            super().add_reader(fd, callback, *args)


def _read_all_but_one(
    wakes: socket.socket, callback: Callable[[*_Arguments], Any], *args: *_Arguments
) -> None:
    """Leave the byte that the reader itself takes; gRPC queues a message before its byte."""
    waiting = len(wakes.recv(_MOST, socket.MSG_PEEK))
    if waiting > 1:
        wakes.recv(waiting - 1)
    callback(*args)
