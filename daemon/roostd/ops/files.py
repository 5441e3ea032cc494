"""The limit of open files: connections, pipes, the journal."""

import contextlib
import resource

from roost_engine.domain.errors import ConfigError

# The most files that everything but probes needs: the journal 3; logs, sockets and epoll 20; pipes
# of Slurm's commands 6 each for 64 at a time; 128 connections to each socket for people.
RESERVED_FILE_COUNT = 700
LEAST_FILE_COUNT = 64  # with 24 roostd starts and places nothing, with 18 gRPC ends the process
_ENOUGH = 1 << 20  # where the kernel sets no limit


def file_limit() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _ENOUGH if soft == resource.RLIM_INFINITY else min(soft, _ENOUGH)


def raise_file_limit() -> None:
    """Raise the limit of open files to this process's hard limit.

    Shells and containers start programs with a limit of 1,024, too low for a few hundred nodes.

    Raises:
        ConfigError: the limit is below LEAST_FILE_COUNT and cannot be raised.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the old limit holds
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if (most := file_limit()) < LEAST_FILE_COUNT:
        raise ConfigError(
            [
                f"open files: this process may have {most}, and needs {LEAST_FILE_COUNT} at least;"
                " cure: LimitNOFILE= in the unit, or ulimit -n"
            ]
        )
