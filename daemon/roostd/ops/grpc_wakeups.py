"""Reads all of gRPC's wake-ups in one turn of the event loop.

gRPC's thread puts an event on a queue and writes a byte to a socket. In a turn of the loop grpc.aio
reads one byte and takes all events from the queue (PollerCompletionQueue of grpcio 1.85). The
socket holds 278 such bytes. While the loop has other work in its turns, more events than turns
come: the socket fills, the thread blocks in its write, and Linux wakes it after 209 bytes have
been read. Every call and every message waits for 209 turns then: 300 ms, where a turn takes 1.4 ms.
"""

import asyncio
import contextlib
import fcntl
import socket
import sys
import termios
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any


@contextlib.contextmanager
def read_at_once(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Make the first server or channel of grpc.aio on a loop inside this.

    Args:
        loop: on which gRPC's socket is read; one of asyncio's own, with attributes.
    """
    add_reader = loop.add_reader

    def add(fd: Any, callback: Callable[..., object], *args: Any) -> None:
        # A gRPC that needs no such socket, or writes no second byte, works as before.
        add_reader(fd, partial(_read, fd, callback) if _is_of_a_pair(fd) else callback, *args)

    vars(loop)["add_reader"] = add
    try:
        yield
    finally:
        del vars(loop)["add_reader"]


def _is_of_a_pair(fd: Any) -> bool:
    """Whether this is one end of socket.socketpair(): what comes there is no one's message."""
    if not isinstance(fd, socket.socket) or fd.type != socket.SOCK_STREAM:
        return False
    return fd.family == socket.AF_UNIX and not (fd.getsockname() or fd.getpeername())


def _read(wakeups: socket.socket, take_events: Callable[..., object], *args: Any) -> None:
    """Read all bytes but the one that gRPC reads itself, before it empties the queue.

    An event is queued before its byte is written, so no event is left without a byte.
    """
    waiting = bytearray(4)
    fcntl.ioctl(wakeups, termios.FIONREAD, waiting)
    byte_count = int.from_bytes(waiting, sys.byteorder)
    if byte_count > 1:
        wakeups.recv(byte_count - 1)
    take_events(*args)
