"""Probes of many nodes that cost next to nothing: the bytes of their calls, straight to sockets.

A client of grpc.aio takes more CPU for a sample than the server does. On two cores 10,000 of them
measure themselves, and never get connected. What is sent here is what gRPC's client sends: one
connection a node, HTTP/2 frames (RFC 9113), headers as literals (RFC 7541, section 6.2.2).
"""

import asyncio
import contextlib
import struct
from collections.abc import Callable

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_ACK, _END_HEADERS = 1, 4
_STREAM = 1


class RawProbe(asyncio.Protocol):
    """The connection of one node, with one call.

    Args:
        path: of the method.
        hello: the first message, as bytes.
        on_answer: called at the first message of the server.

    Attributes:
        is_open: whether the call may still be written to.
    """

    def __init__(self, path: str, hello: bytes, on_answer: Callable[[], None]) -> None:
        self._path, self._hello, self._on_answer = path, hello, on_answer
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self.is_open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        assert isinstance(transport, asyncio.Transport)
        self._transport, self.is_open = transport, True
        opening = _PREFACE + _frame(_SETTINGS, 0, 0, b"")
        opening += _frame(_HEADERS, _END_HEADERS, _STREAM, _headers(self._path))
        transport.write(opening + _message(self._hello))

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self._buffer += data
        while len(self._buffer) >= 9:
            length = int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < 9 + length:
                return
            kind, flags = self._buffer[3], self._buffer[4]
            body = bytes(self._buffer[9 : 9 + length])
            del self._buffer[: 9 + length]
            self._apply(kind, flags, body)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self.is_open = False

    def send(self, message: bytes) -> None:
        """Send one message."""
        assert self._transport is not None
        self._transport.write(_message(message))

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.close()

    def _apply(self, kind: int, flags: int, body: bytes) -> None:
        assert self._transport is not None
        if kind == _DATA:
            self._on_answer()
        elif kind == _SETTINGS and not flags & _ACK:
            self._transport.write(_frame(_SETTINGS, _ACK, 0, b""))
        elif kind == _PING and not flags & _ACK:
            self._transport.write(_frame(_PING, _ACK, 0, body))
        elif kind in (_RST_STREAM, _GOAWAY):
            self.is_open = False


async def connect(host: str, port: int, path: str, hello: bytes) -> RawProbe:
    """Return a probe that roostd has answered; a busy machine may need several attempts."""
    loop = asyncio.get_running_loop()
    while True:
        answered = asyncio.Event()

        def build(answered: asyncio.Event = answered) -> RawProbe:
            return RawProbe(path, hello, answered.set)

        with contextlib.suppress(OSError, TimeoutError):
            _, probe = await loop.create_connection(build, host, port)
            async with asyncio.timeout(20.0):
                await answered.wait()
            return probe
        await asyncio.sleep(1.0)


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return struct.pack(">IBBI", len(body), kind, flags, stream)[1:] + body


def _message(message: bytes) -> bytes:
    """Return a DATA frame with one message: a byte for no compression, the length, the bytes."""
    return _frame(_DATA, 0, _STREAM, struct.pack(">BI", 0, len(message)) + message)


def _headers(path: str) -> bytes:
    names = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
    }
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in names.items())


def _text(text: str) -> bytes:
    assert len(text) < 127  # longer ones take more than a byte for their length
    return bytes([len(text)]) + text.encode()
