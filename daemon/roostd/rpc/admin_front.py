"""The administrators' socket: takes connections, and passes the caller's user id on to gRPC.

grpcio does not give a server the user who calls over a UNIX socket. So roostd accepts the
connection itself, asks the kernel for the caller (SO_PEERCRED), and joins it to a connection of its
own to gRPC's socket, which only the daemon's user can reach. The name of that connection, which
gRPC gives as the caller's name, carries the user id.
"""

import asyncio
import contextlib
import os
import re
import secrets
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

import structlog

from roost_engine.domain.errors import ConfigError
from roostd.rpc.auth import clear_socket

_log = structlog.get_logger(__name__)

MOST_CONNECTIONS = 64  # of people; each costs two descriptors
_PIECE_BYTES = 64 << 10
_CREDENTIALS = struct.Struct("3i")
_NAME = re.compile(r"unix-abstract:(?:%00|\x00)?roostd-[0-9a-f]{16}-uid-(\d{1,10})-pid-(\d{1,10})")


@dataclass(frozen=True, slots=True)
class Caller:
    """The process that opened a connection, as the kernel knows it."""

    uid: int
    pid: int


def caller_of(peer: str) -> Caller | None:
    """Return the caller that gRPC's name of a connection carries; None: it came another way."""
    match = _NAME.fullmatch(peer)
    return Caller(int(match[1]), int(match[2])) if match else None


class AdminFront:
    """Joins callers to gRPC's own socket.

    Args:
        path: the administrators' socket.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._folder = path, path.with_name(".admin")
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def inner_path(self) -> Path:
        """Return where gRPC is to listen."""
        return self._folder / "grpc"

    def make_folder(self) -> None:
        """Make the folder of gRPC's socket, for the daemon's user only.

        Raises:
            ConfigError: it cannot be made, or is no folder of the daemon's user.
        """
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            status = self._folder.lstat()
            if status.st_uid != os.geteuid() or not self._folder.is_dir():
                raise ConfigError([f"listen.admin_socket: {self._folder}: of another user"])
            self._folder.chmod(0o700)
        except OSError as error:
            problem = f"listen.admin_socket: {self._folder}: {error.strerror}"
            raise ConfigError([problem]) from error
        clear_socket(self.inner_path, "listen.admin_socket")

    async def start(self) -> None:
        """Listen, for the owner only: auth.guard_socket lets the group in.

        Raises:
            ConfigError: the path cannot be bound.
        """
        clear_socket(self._path, "listen.admin_socket")
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, self._path)
        except OSError as error:
            problem = f"listen.admin_socket: {self._path}: {error.strerror or error}"
            raise ConfigError([problem]) from error
        finally:
            os.umask(mask)

    async def stop(self) -> None:
        """Close every connection and remove the sockets."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        for path in (self._path, self.inner_path):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MOST_CONNECTIONS:
            _log.warning("admin_connection_refused", most=MOST_CONNECTIONS)
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._join(reader, writer)
        except OSError as error:
            _log.warning("admin_connection_failed", error=str(error))
        finally:
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = _caller(writer.get_extra_info("socket"))
        inner_reader, inner_writer = await self._open(caller)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_pass_on(reader, inner_writer))
                tasks.create_task(_pass_on(inner_reader, writer))
        finally:
            inner_writer.close()

    async def _open(self, caller: Caller) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
            token = secrets.token_hex(8)  # so that nobody can take the name before
            connection.bind(f"\0roostd-{token}-uid-{caller.uid}-pid-{caller.pid}")
            await asyncio.get_running_loop().sock_connect(connection, str(self.inner_path))
        except BaseException:
            connection.close()
            raise
        return await asyncio.open_unix_connection(sock=connection)


def _caller(connection: socket.socket) -> Caller:
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(given)
    return Caller(uid, pid)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one side closes; then close the other."""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    writer.close()
