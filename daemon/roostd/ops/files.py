"""The limit of open files (connections, pipes, the journal), and reads of at most so many bytes."""

import contextlib
import resource
from pathlib import Path

from roost_engine.domain.errors import RoostError

# The most files that everything but probes needs: the journal 3; logs, sockets and epoll 20; pipes
# of Slurm's commands 6 each for 64 at a time; 128 connections to each socket for people.
RESERVED_FILE_COUNT = 700
_ENOUGH = 1 << 20  # where the kernel sets no limit


class FileTooLarge(RoostError):
    """A file of Roost's own is larger than Roost ever writes it."""


def file_limit() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else min(soft, _ENOUGH)


def raise_file_limit() -> None:
    """Raise the limit of open files to this process's hard limit.

    Shells and containers start programs with a limit of 1,024, too low for a few hundred nodes.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the old limit holds
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def read_bounded(path: Path, most_bytes: int) -> str:
    """Return the text of a file that Roost wrote earlier, and that may be damaged by now.

    Raises:
        FileTooLarge: it is larger than Roost ever writes it.
        OSError: it cannot be read; FileNotFoundError: there is none.
        UnicodeDecodeError: it is no text.
    """
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise FileTooLarge(f"is larger than {most_bytes} bytes")
    return content.decode("utf-8")
