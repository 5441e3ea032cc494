"""The folder in which dcgm-exporter looks up which job runs on a GPU (`--hpc-job-mapping-dir`).

It holds one file a GPU, named by its gres index, with the job's number in it. Hooks write it as
root, so only root may write to the folder: another user could place symbolic links there.
"""

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path


class JobMapError(Exception):
    """The folder is not safe to write to."""


def write(folder: Path, job_id: int, gpu_indices: Iterable[int]) -> None:
    """Write the job's number for each of its GPUs; without the folder the site wants no map.

    Raises:
        JobMapError: others may write to the folder.
        OSError: the disk is full, for instance; GPUs entered before that stay entered.
    """
    with _opened(folder) as handle:
        if handle is not None:
            for index in gpu_indices:
                _replace(handle, str(index), f"{job_id}\n".encode())


def remove(folder: Path, job_id: int) -> None:
    """Remove every file that names this job, whichever GPUs the job had.

    Raises:
        JobMapError: others may write to the folder.
    """
    with _opened(folder) as handle:
        if handle is None:
            return
        for name in os.listdir(handle):
            if name.isdecimal() and _content(handle, name) == f"{job_id}\n".encode():
                os.unlink(name, dir_fd=handle)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        status = os.fstat(handle)
        if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise JobMapError(f"{folder}: others may write here; cure: chown root, chmod go-w")
        yield handle
    finally:
        os.close(handle)


def _replace(folder: int, name: str, content: bytes) -> None:
    temporary = f".{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(temporary, flags, 0o644, dir_fd=folder)
    try:
        try:
            os.write(handle, content)
        finally:
            os.close(handle)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _content(folder: int, name: str) -> bytes:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(name, flags, dir_fd=folder)
    except OSError:
        return b""  # a link, or removed meanwhile
    try:
        return os.read(handle, 64)
    finally:
        os.close(handle)
