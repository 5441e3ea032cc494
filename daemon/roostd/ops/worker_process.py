"""A process that works for the daemon; one that died is started again when it is asked.

Each message over its standard streams is a length and a pickle. Both ends are the same program, and
the pipes have no name, so no other program can write to them. When the daemon is gone the process
reads an end of file.
"""

import asyncio
import contextlib
import os
import pickle
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

LENGTH = struct.Struct(">Q")
_NICENESS = 10  # decisions go first


class WorkerProcess:
    """The daemon's end: asks a process, and starts it when there is none.

    Args:
        argv: what Python runs: its arguments.
    """

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = tuple(argv)
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The id of the process; None: there is none."""
        return None if self._process is None else self._process.pid

    async def ask(self, request: object, limit_s: float) -> object:
        """Return the answer to a request; a text where the process failed to answer.

        Raises:
            TimeoutError: none came in time; `stop` the process.
            OSError, EOFError, PickleError: the process ended.
        """
        found: object = pickle.loads(await self.exchange(pickle.dumps(request), limit_s))
        return found

    async def exchange(self, message: bytes, limit_s: float) -> bytes:
        """Return the pickled answer to a pickled request; see `ask`.

        For a caller that has a thread pickle: that of 15,000 jobs takes .1 s.
        """
        async with asyncio.timeout(limit_s):
            process = self._process
            if process is None:
                process = self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *self._argv,
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    start_new_session=True,  # Ctrl-C in a terminal is for the daemon
                )
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(LENGTH.pack(len(message)) + message)
            await process.stdin.drain()
            (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
            return await process.stdout.readexactly(length)

    async def stop(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


def serve(requests: BinaryIO, answers: BinaryIO, answer: Callable[[Any], object]) -> None:
    """Answer requests until there are no more. The answer to a request that fails is a text."""
    while len(head := requests.read(LENGTH.size)) == LENGTH.size:
        body = requests.read(LENGTH.unpack(head)[0])
        try:
            found = answer(pickle.loads(body))
        except Exception as error:  # noqa: BLE001  the daemon logs it, and asks again later
            found = f"{type(error).__name__}: {error}"
        data = pickle.dumps(found)
        answers.write(LENGTH.pack(len(data)) + data)
        answers.flush()


def work(answer: Callable[[Any], object]) -> None:
    """Be the process: answer the daemon's requests, with less right to the CPU than the daemon."""
    with contextlib.suppress(OSError):  # the system call filter of roostd.service refuses it
        os.nice(_NICENESS)
    serve(sys.stdin.buffer, sys.stdout.buffer, answer)
