"""The audit log: one line for every change that an administrator made; lines are never rewritten.

JSON lines in `audit.log` of paths.state_dir, readable for root and the daemon's user only.
"""

import errno
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from roost_engine.domain.errors import JournalError

FILE_NAME = "audit.log"
_LONGEST_NAME = 64


def append(folder: Path, action: str, by: str, **facts: object) -> None:
    """Append a line and sync it to disk, before the change takes effect.

    Args:
        folder: paths.state_dir.
        action: the kind of change: "pin_timer".
        by: the administrator, by the name that the request gives; any name can be given.
        facts: the other entries of the line.

    Raises:
        JournalError: the line cannot be written; the change must not be made.
    """
    name = "".join(letter if letter.isprintable() else "?" for letter in by[:_LONGEST_NAME])
    at = datetime.now(tz=UTC).isoformat(timespec="milliseconds")
    line = json.dumps({"at": at, "action": action, "by": name, **facts}) + "\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.open(folder / FILE_NAME, flags, 0o600)
        try:
            _append_whole(file, line.encode())
        finally:
            os.close(file)
    except OSError as error:
        raise JournalError(
            f"{folder / FILE_NAME}: {error.strerror}; nothing was changed"
        ) from error


def _append_whole(file: int, line: bytes) -> None:
    """Append a line and sync it; where the disk does not take all of it, none of it stays.

    Raises:
        OSError: the disk did not take it.
    """
    size_bytes = os.fstat(file).st_size
    try:
        if os.write(file, line) < len(line):  # a full disk takes a part, and reports no error
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
    except OSError:
        os.ftruncate(file, size_bytes)
        raise
