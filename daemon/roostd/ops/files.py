"""How many files the daemon may have open: connections, pipes to Slurm's commands, the journal."""

import contextlib
import resource

# What everything but probes needs at the most: the journal 3, logs, sockets and epoll 20, pipes of
# Slurm's commands 6 each for 64 at a time, and 128 connections of each socket for people.
RESERVED_FILE_COUNT = 700
_ENOUGH = 1 << 20  # where the kernel sets no limit


def file_limit() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else min(soft, _ENOUGH)


def raise_file_limit() -> None:
    """Raise the limit of open files as far as the kernel lets this process.

    Shells and containers start programs with 1,024, which a few hundred nodes use up.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the old limit holds
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
