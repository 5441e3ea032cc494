"""The folders that the daemon keeps: made at its start, and locked against a second daemon."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from roost_engine.domain.errors import ConfigError, RoostError
from roostd.config.config import Config

SPOOL_FOLDER = "spool"


class StateFolderInUse(RoostError):
    """Another roostd keeps its journal in the state folder."""


def make_folders(config: Config) -> None:
    """Make those that are not there.

    Raises:
        ConfigError: one cannot be made; names it.
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
            raise ConfigError([f"{key}: {folder}: {error.strerror}"]) from error


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the state folder; the kernel lets go of it whatever becomes of this process.

    Raises:
        ConfigError: it takes no lock.
        StateFolderInUse: another daemon holds it.
    """
    try:
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError([f"paths.state_dir: {folder}: {error.strerror}"]) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StateFolderInUse(f"{folder}: another roostd is running on it") from error
        yield
    finally:
        os.close(handle)
