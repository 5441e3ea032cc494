"""The audit log: one line for every change that an administrator made; lines are never rewritten.

JSON lines in `audit.log` of paths.state_dir, readable for root and the daemon's user only, in a
chain of hashes (roost_formats.audit.chain). `audit.head` beside it has the hash of the last line,
so that a rotated log continues the same chain.
"""

import contextlib
import errno
import os
from datetime import UTC, datetime
from pathlib import Path

from roost_engine.domain.errors import JournalError
from roost_formats.audit import chain

FILE_NAME, HEAD_NAME = "audit.log", "audit.head"
_LONGEST_NAME = 64
_LONGEST_LINE_BYTES = 64 << 10  # more of the end of the file is not read for the last line
_HASH_LENGTH = 64


def append(folder: Path, action: str, by: str, **facts: object) -> str:
    """Append a line and sync it to disk, before the change takes effect.

    Args:
        folder: paths.state_dir.
        action: the kind of change: "pin_timer".
        by: the administrator, by the name that the request gives; any name can be given.
        facts: the other entries of the line.

    Returns:
        The hash of the line, for the daemon's log.

    Raises:
        JournalError: the line cannot be written; the change must not be made.
    """
    name = "".join(letter if letter.isprintable() else "?" for letter in by[:_LONGEST_NAME])
    at = datetime.now(tz=UTC).isoformat(timespec="milliseconds")
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.open(folder / FILE_NAME, flags, 0o600)
        try:
            after = _last_hash(file) or _head(folder)
            entries = {"at": at, "action": action, "by": name, **facts}
            line, digest = chain.chained(after, entries)
            _append_whole(file, f"{_line_end(file)}{line}\n".encode())
        finally:
            os.close(file)
    except OSError as error:
        raise JournalError(
            f"{folder / FILE_NAME}: {error.strerror}; nothing was changed"
        ) from error
    _keep_head(folder, digest)
    return digest


def _last_hash(file: int) -> str | None:
    """Return the hash of the last line; None: the file is empty."""
    size_bytes = os.fstat(file).st_size
    if not size_bytes:
        return None
    begin = max(size_bytes - _LONGEST_LINE_BYTES, 0)
    last = os.pread(file, _LONGEST_LINE_BYTES, begin).rstrip(b"\n").rpartition(b"\n")[2]
    found = chain.hash_of(last.decode("utf-8", "replace"))
    if found is not None:
        return found
    return chain.hash_of_unchained(os.pread(file, size_bytes, 0))


def _line_end(file: int) -> str:
    """Return what ends the last line: a line feed where a power cut has left it without one."""
    size_bytes = os.fstat(file).st_size
    is_cut = size_bytes > 0 and os.pread(file, 1, size_bytes - 1) != b"\n"
    return "\n" if is_cut else ""


def _head(folder: Path) -> str:
    """Return the hash of the last line before the log was rotated; START: there was none."""
    try:
        text = (folder / HEAD_NAME).read_text("ascii", "replace").strip()
    except OSError:
        return chain.START
    is_hash = len(text) == _HASH_LENGTH and not set(text) - set("0123456789abcdef")
    return text if is_hash else chain.START


def _keep_head(folder: Path, digest: str) -> None:
    """Replace the head. The line is on disk already: a head that is lost refuses no change."""
    temporary = folder / f".{HEAD_NAME}"
    with contextlib.suppress(OSError):
        temporary.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.open(temporary, flags, 0o600)
        try:
            os.write(file, f"{digest}\n".encode())
            os.fsync(file)
        finally:
            os.close(file)
        temporary.replace(folder / HEAD_NAME)


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
