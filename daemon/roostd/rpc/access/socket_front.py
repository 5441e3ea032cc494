"""The UNIX sockets that know the calling user: they pass the caller's user id on to gRPC.

grpcio does not give a server the user who calls over a UNIX socket. So roostd accepts the
connection itself, asks the kernel for the caller (SO_PEERCRED, SO_PEERGROUPS), and joins it to a
connection of its own to gRPC's socket, which only the daemon's user can reach. The name of that
connection, which gRPC gives as the caller's name, carries the user id.
"""

import asyncio
import contextlib
import os
import pwd
import re
import secrets
import socket
import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import structlog

from roost_engine.domain.errors import ConfigError
from roostd.rpc.access.limits import (
    MOST_CONNECTIONS,
    MOST_CONNECTIONS_PER_USER,
    MOST_GROUPS,
    SPARE_CONNECTIONS_OF_ROOT,
)
from roostd.rpc.access.socket_files import clear_socket, remove_socket
from roostd.rpc.errors import Context

_log = structlog.get_logger(__name__)

_PIECE_BYTES = 64 << 10
_CREDENTIALS = struct.Struct("3i")
_SO_PEERGROUPS = 59  # asm-generic/socket.h, Linux 4.13; Python has no name for it
_NAME = re.compile(
    r"unix-abstract:(?:%00|\x00)?roostd-([0-9a-f]{16})-uid-(\d{1,10})-pid-(\d{1,10})"
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The process that opened a connection, as the kernel knows it.

    Attributes:
        uid: its user id.
        pid: its process id.
    """

    uid: int
    pid: int


def caller_of(peer: str) -> Caller | None:
    """Return the caller that gRPC's name of a connection carries; None: it came another way."""
    match = _NAME.fullmatch(peer)
    return Caller(int(match[2]), int(match[3])) if match else None


def uid_of(context: Context) -> int | None:
    """Return the user id of a call's caller; None: it came another way."""
    caller = caller_of(context.peer())
    return None if caller is None else caller.uid


def facts_of_caller(peer: str) -> dict[str, object]:
    """Return the caller's user and process for the audit log; {}: it came another way."""
    caller = caller_of(peer)
    if caller is None:
        return {}
    try:
        user = pwd.getpwuid(caller.uid).pw_name
    except KeyError:
        user = None
    return {"uid": caller.uid, "user": user, "pid": caller.pid}


class SocketFront:
    """Joins callers to gRPC's own socket.

    Args:
        path: the socket that people open.
        key: the setting that names it, for errors.
    """

    def __init__(self, path: Path, key: str = "listen.admin_socket") -> None:
        self._path, self._key = path, key
        self._folder = path.with_name(f".{path.stem}")
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], int] = {}  # with the user id of each
        self._groups: dict[str, frozenset[int]] = {}  # of the callers, by the connection's token

    @property
    def inner_path(self) -> Path:
        """Return where gRPC is to listen."""
        return self._folder / "grpc"

    def groups_of(self, peer: str) -> frozenset[int]:
        """Return the group ids of the caller that gRPC gives as `peer`; none where it is gone."""
        match = _NAME.fullmatch(peer)
        return self._groups.get(match[1], frozenset()) if match else frozenset()

    def make_folder(self) -> None:
        """Make the folder of gRPC's socket, for the daemon's user only.

        Raises:
            ConfigError: it cannot be made, or is no folder of the daemon's user.
        """
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            status = self._folder.lstat()
            if status.st_uid != os.geteuid() or not self._folder.is_dir():
                raise ConfigError([f"{self._key}: {self._folder}: of another user"])
            self._folder.chmod(0o700)
        except OSError as error:
            raise ConfigError([f"{self._key}: {self._path}: {error.strerror}"]) from error
        clear_socket(self.inner_path, self._key)

    async def start(self) -> None:
        """Listen, for the owner only: socket_files.guard_socket lets others in.

        Raises:
            ConfigError: the path cannot be bound.
        """
        clear_socket(self._path, self._key)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, self._path)
        except OSError as error:
            problem = f"{self._key}: {self._path}: {error.strerror or error}"
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
        if self._server is not None:
            remove_socket(self._path)
        remove_socket(self.inner_path)
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = _caller(writer.get_extra_info("socket"))
        if not self._has_capacity(caller.uid):
            _log.warning("connection_refused", socket=self._path.name, uid=caller.uid)
            writer.close()
            return
        task = asyncio.create_task(self._serve(caller, reader, writer))
        self._connections[task] = caller.uid
        task.add_done_callback(self._connections.pop)

    def _has_capacity(self, uid: int) -> bool:
        """Whether one more connection of a user is admitted: no user may use up all of them."""
        if uid in (0, os.geteuid()):
            return len(self._connections) < MOST_CONNECTIONS + SPARE_CONNECTIONS_OF_ROOT
        of_user = Counter(self._connections.values())[uid]
        return len(self._connections) < MOST_CONNECTIONS and of_user < MOST_CONNECTIONS_PER_USER

    async def _serve(
        self, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            await self._join(caller, reader, writer)
        except OSError as error:
            _log.warning("connection_failed", socket=self._path.name, error=str(error))
        finally:
            writer.close()

    async def _join(
        self, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        token = secrets.token_hex(8)  # so that no other process can take the name first
        self._groups[token] = _groups(writer.get_extra_info("socket"))
        try:
            inner_reader, inner_writer = await self._open(caller, token)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_pass_on(reader, inner_writer))
                    tasks.create_task(_pass_on(inner_reader, writer))
            finally:
                inner_writer.close()
        finally:
            del self._groups[token]

    async def _open(
        self, caller: Caller, token: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.setblocking(False)
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


def _groups(connection: socket.socket) -> frozenset[int]:
    """Return the caller's group ids, supplementary ones too, without asking a directory server."""
    given = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    own = _CREDENTIALS.unpack(given)[2]
    try:
        more = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERGROUPS, 4 * MOST_GROUPS)
    except OSError:  # an old kernel, or a user of more groups: only the first group counts
        return frozenset({own})
    return frozenset({own, *struct.unpack(f"{len(more) // 4}I", more)})


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy bytes until one side closes; then close the other."""
    with contextlib.suppress(ConnectionError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    writer.close()
