"""The file by which job_submit.lua and the controller's hooks wake roostd.

Each event is one short line, appended in one write: `submit <uid> <partition>`, `change`, `start
<jobid>`, `end <jobid>`. A lost line costs a delay, never a job: roostd also polls. A submit line is
written just before the job exists.
"""

import contextlib
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

MAX_LINE_BYTES = 256
TRUNCATE_BYTES = 1 << 20  # roostd empties a longer file once it has read it
REFUSE_BYTES = 4 << 20  # roostd does not read: writers stop before they fill the file system

_CHANGE = "change"
_SUBMIT = re.compile(r"submit (\d{1,10}) ([A-Za-z0-9_.,*+?-]{1,200})", re.ASCII)
_START_OR_END = re.compile(r"(start|end) (\d{1,10}(?:_\d{1,10})?)", re.ASCII)


class SpoolError(ValueError):
    """A line is invalid, or the spool is full."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A user is submitting a GPU job; its id is not known yet."""

    user_id: int
    partition: str  # as the user wrote it: "a,b", or "*" for an unknown default


@dataclass(frozen=True, slots=True)
class Changed:
    """A user or an administrator is changing a leased job, or releases it."""


@dataclass(frozen=True, slots=True)
class Started:
    """A job got its nodes."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A job released its nodes."""

    job_id: str


SpoolEvent: TypeAlias = Submitted | Changed | Started | Ended


def render(event: SpoolEvent) -> str:
    """Write an event as one line, without the line break."""
    match event:
        case Submitted(user_id, partition):
            return f"submit {user_id} {partition}"
        case Changed():
            return _CHANGE
        case Started(job_id):
            return f"start {job_id}"
        case Ended(job_id):
            return f"end {job_id}"


def parse_line(line: str) -> SpoolEvent:
    """Read one line, without the line break.

    Raises:
        SpoolError: it is too long, or not of a known form.
    """
    if len(line) > MAX_LINE_BYTES:
        raise SpoolError(f"line of {len(line)} characters; want at most {MAX_LINE_BYTES}")
    if line == _CHANGE:
        return Changed()
    if match := _SUBMIT.fullmatch(line):
        return Submitted(int(match[1]), match[2])
    if match := _START_OR_END.fullmatch(line):
        return Started(match[2]) if match[1] == "start" else Ended(match[2])
    raise SpoolError(f"{line!r} is no line of the spool")


def append(path: Path, event: SpoolEvent) -> None:
    """Add an event. Writers do not wait for each other: one write of one line is atomic.

    Raises:
        SpoolError: the event does not make a valid line, the file is no plain file, or full.
        OSError: it cannot be written.
    """
    line = render(event)
    parse_line(line)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    handle = os.open(path, flags, 0o644)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise SpoolError(f"{path} is no plain file")
        if status.st_size > REFUSE_BYTES:
            raise SpoolError(f"{path} has {status.st_size} bytes: roostd does not read it")
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class Drained:
    """What was new in the spool."""

    events: tuple[SpoolEvent, ...]
    refused_count: int  # invalid lines


class SpoolReader:
    """Reads each line once. There is one reader; there may be many writers."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode: int | None = None

    def drain(self) -> Drained:
        """Return what was appended since the last call; empties a file that has grown long.

        A line without its line break yet is left for the next call. A missing file is empty.
        """
        try:
            file = self.path.open("r+b")
        except FileNotFoundError:
            # The next file of that name may get this file's inode number.
            self._inode, self._offset = None, 0
            return Drained((), 0)
        with file:
            status = os.fstat(file.fileno())
            if status.st_ino != self._inode or status.st_size < self._offset:
                self._inode, self._offset = status.st_ino, 0
            file.seek(self._offset)
            unread = file.read()
            complete = unread[: unread.rfind(b"\n") + 1]
            self._offset += len(complete)
            self._truncate_if_long(file.fileno(), len(unread) == len(complete))
        return _parse(complete)

    def _truncate_if_long(self, handle: int, all_read: bool) -> None:
        # A line that is appended between the two calls is lost; the safety poll finds the job.
        is_long = self._offset > TRUNCATE_BYTES and all_read
        if is_long and os.fstat(handle).st_size == self._offset:
            os.ftruncate(handle, 0)
            self._offset = 0


def _parse(text: bytes) -> Drained:
    events: list[SpoolEvent] = []
    lines = text.decode("ascii", "replace").split("\n")[:-1]
    for line in lines:
        with contextlib.suppress(SpoolError):
            events.append(parse_line(line))
    return Drained(tuple(events), len(lines) - len(events))
