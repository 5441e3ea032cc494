"""The daemon's end of a process that works for it; one that died is started again when it is asked.

Each message over its standard streams is a length and a body. Both ends are the same program, and
the pipes have no name, so no other program can write to them. When the daemon is gone the process
reads an end of file.
"""

import asyncio
import contextlib
import struct
import sys
from collections.abc import Sequence

LENGTH = struct.Struct(">Q")


class WorkerProcess:
    """Asks a process, and starts it when there is none.

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

    async def ask(self, message: bytes, limit_s: float) -> bytes:
        """Return the answer to a message.

        Raises:
            TimeoutError: none came in time; `stop` the process.
            OSError, EOFError: the process ended.
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
