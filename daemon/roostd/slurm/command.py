"""Runs Slurm's commands: with a fixed argv, an absolute path and a deadline each."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roost_engine.domain.model import JobId
from roost_slurm.text.commands import ENVIRONMENT, Argv, job_list

IDS_PER_CALL = 400
TASKS_PER_CALL = 10_000  # of an array whose list of tasks is longer than this:
LONGEST_LIST = 100_000  # characters; the kernel's limit for one argument is 128 KiB
_PROGRAMS = ("scontrol", "squeue", "sinfo", "sacctmgr", "sbatch", "scancel")
# sbatch takes --uid from root only, and asks getuid() for that. slurmctld learns the true user from
# munged, and accepts the same from SlurmUser.
_AS_ROOT = ("/usr/bin/unshare", "--user", "--map-root-user")
# slurmctld's errors for jobs that started or ended, or that it has forgotten; of an array it lists
# the other tasks too, as "1_48-399: No error".
_GONE = (
    *("Invalid job id", "Job/step already completing or completed", "already finished"),
    *("Job is no longer pending execution", ": No error"),
)


class CommandRunner:
    """Runs scontrol, squeue, sinfo, sacctmgr, sbatch and scancel.

    Args:
        bin_dir: folder of the commands.
        conf: slurm.conf; None: the commands' default.
        timeout_s: after which a command is killed.
        concurrent_count: the most commands that run at the same time.
    """

    def __init__(
        self, bin_dir: Path, conf: Path | None, timeout_s: float, concurrent_count: int
    ) -> None:
        self._programs = {name: str(bin_dir / name) for name in _PROGRAMS}
        self._env = {"PATH": os.defpath, **ENVIRONMENT}
        if conf is not None:
            self._env["SLURM_CONF"] = str(conf)
        self._timeout_s = timeout_s
        self._slots = asyncio.Semaphore(concurrent_count)

    async def run(self, argv: Argv, *, may_fail: bool = False) -> str:
        """Run a command and return its stdout.

        Raises:
            SlurmRefused: exit code other than 0, unless it may fail.
            SlurmTimeout: killed at the deadline. An update may or may not have happened.
        """
        out, err, exit_code, command = await self._finish((), argv)
        if exit_code and not may_fail:
            raise SlurmRefused(command, exit_code, err)
        return out

    async def ask(self, argv: Argv) -> tuple[int, str]:
        """Run a command that takes itself for root's; return its exit code and its stderr.

        Raises:
            SlurmTimeout: killed at the deadline.
        """
        prefix = () if os.geteuid() == 0 else _AS_ROOT
        _, err, exit_code, _ = await self._finish(prefix, argv)
        return exit_code, err

    async def _finish(self, prefix: Argv, argv: Argv) -> tuple[str, str, int, Argv]:
        """Run a command to its end. Returns stdout, stderr, exit code and the whole command."""
        command = (*prefix, self._programs[argv[0]], *argv[1:])
        async with self._slots:
            process = await _spawn(command, self._env)
            try:
                async with asyncio.timeout(self._timeout_s):
                    out, err = await process.communicate()
            except TimeoutError as error:
                raise SlurmTimeout(command, self._timeout_s) from error
            finally:
                await _end(process)
        assert process.returncode is not None
        texts = out.decode(errors="replace"), err.decode(errors="replace")
        return *texts, process.returncode, command


def only_gone(refusal: SlurmRefused) -> bool:
    """Return whether a command failed only because jobs started, ended or were forgotten."""
    lines = [line for line in refusal.stderr.splitlines() if line.strip()]
    return bool(lines) and all(any(word in line for word in _GONE) for line in lines)


async def update_all(
    run: Callable[[Argv], Awaitable[str]],
    job_ids: Sequence[JobId],
    argv_of: Callable[[Sequence[JobId]], Argv],
) -> None:
    """Update many jobs. scontrol continues after a job that it cannot find.

    Raises:
        SlurmRefused, SlurmTimeout: as `run` raises; not for jobs that are gone.
    """
    for ids in _by_call(job_ids):
        await asyncio.sleep(0)  # to group 15,000 tasks takes 10 ms, and to write their list 8
        try:
            await run(argv_of(ids))
        except SlurmRefused as error:
            if not only_gone(error):
                raise


def _by_call(job_ids: Sequence[JobId]) -> Iterator[Sequence[JobId]]:
    """Yield the jobs of each call: IDS_PER_CALL of them, but the tasks of an array together.

    Where an update names some tasks of an array's record, slurmctld gives each of these a record of
    its own, hundreds in one call; where it names all of them, they stay in one.
    """
    arrays: dict[str, list[JobId]] = {}
    for job_id in job_ids:
        array, is_task, _ = job_id.partition("_")
        arrays.setdefault(array if is_task else "", []).append(job_id)
    singles = arrays.pop("", [])
    groups = chain(([one] for one in singles), arrays.values())
    ids: list[JobId] = []
    for group in groups:
        for part in _parts(group):
            if ids and len(ids) + len(part) > IDS_PER_CALL:
                yield ids
                ids = []
            ids += part
    if ids:
        yield ids


def _parts(group: list[JobId]) -> Iterator[list[JobId]]:
    """Yield the tasks of an array: all of them, unless the kernel refuses so long an argument."""
    is_long = len(group) > TASKS_PER_CALL and len(job_list(group)) > LONGEST_LIST
    step = TASKS_PER_CALL if is_long else len(group)
    for start in range(0, len(group), step):
        yield group[start : start + step]


async def _spawn(command: Argv, env: Mapping[str, str]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            # In a session of its own, so that an update completes even if this process dies.
            start_new_session=True,
        )
    except OSError as error:
        raise SlurmRefused(command, 127, f"cannot be run: {error.strerror}") from error


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill a command that still runs, its children too."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
