"""A stand-in for the probe's agent: answers hooks over a UNIX socket, or misbehaves on purpose."""

import json
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Handler = Callable[[socket.socket], None]


class FakeAgent:
    """Answers each request from a table by its "op"; a context manager.

    Attributes:
        asked: the requests so far.
    """

    def __init__(
        self,
        path: Path,
        replies: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        misbehave: Handler | None = None,
    ) -> None:
        self.path = path
        self.asked: list[dict[str, Any]] = []
        self._replies = replies or {}
        self._handle = misbehave or self._answer
        self._listener = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve, name="fake-agent")

    def __enter__(self) -> Self:
        self.path.parent.mkdir(exist_ok=True)
        self._listener.bind(str(self.path))
        self.path.chmod(0o666)
        self._listener.listen()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._thread.join()
        self._listener.close()
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    self._handle(connection)
                except OSError:
                    continue  # the hook gave up

    def _answer(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            request = json.loads(lines.readline())
        self.asked.append(request)
        reply = self._replies.get(request["op"], {"error": "no such job"})
        connection.sendall(json.dumps(reply).encode() + b"\n")
