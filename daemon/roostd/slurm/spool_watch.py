"""Notices writes into a folder: Linux inotify through libc, without a library."""

import asyncio
import ctypes
import os
from pathlib import Path

from roost_engine.domain.errors import RoostError

_IN_MODIFY = 0x002
_IN_MOVED_TO = 0x080
_IN_CREATE = 0x100
_READ_BYTES = 64 << 10


class FolderWatch:
    """Sets an event whenever a file in a folder is created, written or moved there.

    The folder is watched rather than the file: the file need not exist yet, and may be replaced.

    Attributes:
        changed: set at each change; the caller clears it.

    Args:
        folder: must exist.

    Raises:
        RoostError: the kernel refuses (fs.inotify.max_user_instances is often 128).
    """

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._handle: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        mask = _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE
        if self._handle < 0 or (
            libc.inotify_add_watch(self._handle, os.fsencode(folder), mask) < 0
        ):
            reason = os.strerror(ctypes.get_errno())
            self.close()
            raise RoostError(f"{folder} cannot be watched: {reason}")
        self.changed = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._handle, self._drain)

    def close(self) -> None:
        """Stop watching."""
        if self._handle >= 0:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1

    def _drain(self) -> None:
        try:
            os.read(self._handle, _READ_BYTES)
        except BlockingIOError:
            return
        self.changed.set()
