"""The daemon's folders: made at its start, and locked against a second daemon.

A disk that is full or fails is not an error of the configuration: without a state folder the daemon
starts without a journal; without a runtime folder the start fails, and a later one may succeed.
"""

import contextlib
import errno
import fcntl
import os
import pwd
from collections.abc import Iterator
from pathlib import Path

import structlog

from roost_engine.domain.errors import ConfigError, RoostError
from roostd.config.config import Config

_log = structlog.get_logger(__name__)

SPOOL_FOLDER = "spool"
_DISK_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


class StateFolderInUse(RoostError):
    """Another roostd runs on the state folder or on the runtime folder."""


class FolderUnusable(RoostError):
    """A required folder cannot be made because its disk is full or fails."""


def make_folders(config: Config) -> None:
    """Make the missing folders of the configuration.

    Raises:
        ConfigError: a folder cannot be made; the text names it.
        FolderUnusable: the runtime folder's disk is full or fails.
    """
    paths = config.paths
    for key, folder, mode in (
        ("paths.runtime_dir", paths.runtime_dir, 0o755),
        ("paths.state_dir", paths.state_dir, 0o750),
        ("paths.runtime_dir", paths.runtime_dir / SPOOL_FOLDER, 0o755),
    ):
        try:
            folder.mkdir(mode=mode, parents=True, exist_ok=True)
        except OSError as error:
            problem = f"{key}: {folder}: {_why(error, folder)}"
            if error.errno not in _DISK_FAULTS:
                raise ConfigError([problem]) from error
            if folder != paths.state_dir:
                raise FolderUnusable(problem) from error
            _log.error("folder_unusable", error=problem)


def user_name(uid: int) -> str:
    """Return a user's name, or its number where it has none, as in some containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _why(error: OSError, folder: Path) -> str:
    match error.errno:
        case errno.EEXIST | errno.ENOTDIR | errno.ELOOP:
            return "no folder, but a file, or a link that leads to none; remove it"
        case errno.EISDIR:
            return "a folder where a file should be; remove it"
        case errno.EACCES | errno.EPERM:
            user = user_name(os.geteuid())
            return f"user {user} may not; cure: mkdir -p {folder} && chown -R {user} {folder}"
        case _:
            return str(error.strerror)


@contextlib.contextmanager
def locked(folder: Path, setting: str = "state_dir") -> Iterator[None]:
    """Lock a folder against a second daemon; the kernel unlocks it however this process ends.

    Both the folder and its file "lock" are locked: on a full disk the file may not exist.

    Raises:
        ConfigError: the folder cannot be locked.
        StateFolderInUse: another daemon has locked it.
    """
    with contextlib.ExitStack() as held:
        for path, flags in (
            (folder, os.O_RDONLY | os.O_DIRECTORY),
            (folder / "lock", os.O_RDWR | os.O_CREAT),
        ):
            try:
                handle = os.open(path, flags | os.O_CLOEXEC, 0o600)
            except OSError as error:
                problem = f"paths.{setting}: {path}: {_why(error, folder)}"
                is_missing = error.errno == errno.ENOENT  # make_folders could not make it
                if error.errno not in _DISK_FAULTS and not is_missing:
                    raise ConfigError([problem]) from error
                _log.error("folder_not_locked", path=str(path), error=problem)
                continue
            held.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StateFolderInUse(f"{folder}: another roostd is running on it") from error
        yield
