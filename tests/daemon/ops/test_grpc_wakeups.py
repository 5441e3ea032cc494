"""gRPC's wake-ups: all are read in one turn, and none is left without its event."""

import asyncio
import functools
import socket
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from roostd.ops.grpc_wakeups import read_at_once

MORE_THAN_FIT = 300  # a socket pair of Linux holds 278 bytes that are written one by one


class Wakeups:
    """What grpc.aio does with its socket: a byte for each event, of which it reads one in a turn.

    The event of a byte that does not fit is not queued: gRPC's thread would wait here.
    """

    def __init__(self) -> None:
        self.read_socket, self._write_socket = socket.socketpair()
        self.read_socket.setblocking(False)
        self._write_socket.setblocking(False)
        self.queue: list[int] = []
        self.taken: list[list[int]] = []  # in each turn

    def send(self, event: int) -> bool:
        self.queue.append(event)
        try:
            self._write_socket.send(b"1")
        except BlockingIOError:
            self.queue.pop()
            return False
        return True

    def take(self) -> None:
        self.read_socket.recv(1)
        events, self.queue = self.queue, []
        self.taken.append(events)

    def close(self) -> None:
        self.read_socket.close()
        self._write_socket.close()


@pytest.fixture
def wakeups() -> Iterator[Wakeups]:
    made = Wakeups()
    yield made
    made.close()


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_all_that_have_come_are_read_in_one_turn(wakeups: Wakeups) -> None:
    loop = asyncio.get_running_loop()
    with read_at_once(loop):
        loop.add_reader(wakeups.read_socket, wakeups.take)
    sent = [event for event in range(MORE_THAN_FIT) if wakeups.send(event)]
    assert len(sent) < MORE_THAN_FIT  # the socket is full
    await turns(2)
    assert wakeups.taken == [sent]
    later = range(MORE_THAN_FIT, MORE_THAN_FIT + len(sent))
    assert all(map(wakeups.send, later))  # gRPC's thread need not wait
    await turns(2)
    assert wakeups.taken[1:] == [list(later)]
    loop.remove_reader(wakeups.read_socket)


async def test_one_that_comes_alone_is_read_by_grpc(wakeups: Wakeups) -> None:
    loop = asyncio.get_running_loop()
    with read_at_once(loop):
        loop.add_reader(wakeups.read_socket, wakeups.take)
    for event in range(3):
        wakeups.send(event)
        await turns(2)
    assert wakeups.taken == [[0], [1], [2]]
    loop.remove_reader(wakeups.read_socket)


async def test_readers_of_others_are_as_before(wakeups: Wakeups) -> None:
    loop = asyncio.get_running_loop()
    with read_at_once(loop):
        loop.add_reader(wakeups.read_socket.fileno(), wakeups.take)
    loop.remove_reader(wakeups.read_socket)
    loop.add_reader(wakeups.read_socket, wakeups.take)
    for event in range(2):
        wakeups.send(event)
    await turns(3)
    assert wakeups.taken == [[0, 1], []]  # a byte a turn
    loop.remove_reader(wakeups.read_socket)


async def test_messages_of_a_connection_are_left_to_its_reader() -> None:
    """A later gRPC might read connections on the loop: there each byte counts."""
    loop, got = asyncio.get_running_loop(), asyncio.Queue[bytes]()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sender = socket.create_connection(listener.getsockname())
        reader, _ = listener.accept()
    with sender, reader:
        with read_at_once(loop):
            loop.add_reader(reader, lambda: got.put_nowait(reader.recv(64)))
        sender.sendall(b"whole")
        assert await got.get() == b"whole"
        loop.remove_reader(reader)


async def test_datagrams_are_left_to_their_reader() -> None:
    loop, got = asyncio.get_running_loop(), list[bytes]()
    sender, reader = socket.socketpair(type=socket.SOCK_DGRAM)
    with sender, reader:
        with read_at_once(loop):
            loop.add_reader(reader, lambda: got.append(reader.recv(64)))
        sender.send(b"first")
        sender.send(b"second")
        await turns(3)
        loop.remove_reader(reader)
    assert got == [b"first", b"second"]


class NotingLoop(asyncio.SelectorEventLoop):
    """Notes its readers."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[tuple[Any, Callable[..., object]]] = []

    def add_reader(self, fd: Any, callback: Callable[..., object], *args: Any) -> None:  # type: ignore[override]
        """See asyncio."""
        self.readers.append((fd, callback))
        super().add_reader(fd, callback, *args)


def test_grpc_adds_its_socket_with_the_first_server() -> None:
    async def make_server() -> list[tuple[Any, Callable[..., object]]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, NotingLoop)
        with read_at_once(loop):
            server = grpc.aio.server()
        await server.stop(None)
        return loop.readers

    with asyncio.Runner(loop_factory=NotingLoop) as runner:
        ((fd, callback),) = runner.run(make_server())
    assert isinstance(fd, socket.socket)
    assert isinstance(callback, functools.partial)
    assert callback.args[0] is fd  # it reads the bytes before gRPC does
