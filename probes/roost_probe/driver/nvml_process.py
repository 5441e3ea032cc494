"""The probe's side of the driver: a child that calls NVML, deadlines, a new child on failure."""

import asyncio
import contextlib
import random
import signal
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import NoReturn

from roost_probe.backoff import Backoff
from roost_probe.driver.readings import (
    DriverFacts,
    DriverLoad,
    JobMemory,
    decode_facts,
    decode_job_memory,
    decode_load,
)
from roost_probe.errors import DriverFault

_LINE_LIMIT_BYTES = 1 << 22  # facts of 16 GPUs with 18 lanes each are about 30 KiB
_REAP_S = 1.0


class NvmlProcess:
    """Asks a child that calls NVML. A child that hangs or dies is replaced, with back-off.

    Drivers hang in the kernel and segfault in user space; neither may take the probe along.

    Args:
        pcie: a PcieSource value.
        facts_timeout_s: deadline for `facts`. Without persistence mode the driver wakes GPUs up
            when it is opened, which takes seconds for each.
        load_timeout_s: deadline for `load` and `jobs`.
        rng: for the back-off.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        pcie: str = "counters",
        facts_timeout_s: float = 60.0,
        load_timeout_s: float = 5.0,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._command: Sequence[str] = (sys.executable, "-m", "roost_probe.driver.nvml_child", pcie)
        self._facts_timeout_s, self._load_timeout_s = facts_timeout_s, load_timeout_s
        self._backoff = Backoff(1.0, 60.0, rng or random.Random())
        self._clock = clock
        self._child: asyncio.subprocess.Process | None = None
        self._stuck: asyncio.subprocess.Process | None = None
        self._not_before_s = 0.0
        self._last_problem = ""
        self.start_count = 0

    @property
    def pid(self) -> int | None:
        """The child's process id, while there is one."""
        return self._child.pid if self._child is not None else None

    async def facts(self) -> DriverFacts:
        """Read what does not change.

        Raises:
            DriverFault: no answer; the text says why and what happens next.
        """
        return decode_facts(await self._ask(b"facts\n", self._facts_timeout_s))

    async def load(self) -> DriverLoad:
        """Read what changes.

        Raises:
            DriverFault: no answer; the text says why and what happens next.
        """
        load = decode_load(await self._ask(b"load\n", self._load_timeout_s))
        self._backoff.reset()
        return load

    async def jobs(self, gpus: Collection[int]) -> JobMemory:
        """Read what Slurm jobs use of the memory of some GPUs.

        Raises:
            DriverFault: no answer; the text says why and what happens next.
        """
        command = f"jobs {' '.join(map(str, sorted(gpus)))}\n"
        return decode_job_memory(await self._ask(command.encode(), self._load_timeout_s))

    async def close(self) -> None:
        """End the child."""
        if self._child is not None:
            await self._end(self._child)
            self._child = None

    async def _ask(self, command: bytes, timeout_s: float) -> bytes:
        child = await self._started()
        if child.stdin is None or child.stdout is None:
            raise DriverFault("the NVML process has no pipes")
        try:
            async with asyncio.timeout(timeout_s):
                child.stdin.write(command)
                await child.stdin.drain()
                line = await child.stdout.readline()
        except TimeoutError:
            await self._give_up(child, f"NVML did not answer within {timeout_s:g} s")
        except (ConnectionError, ValueError):
            line = b""  # the pipe broke, or the line is longer than any sane answer
        if not line.endswith(b"\n"):
            await self._reaped(child)  # it is exiting: wait for the status, which names the signal
            await self._give_up(child, "the NVML process died")
        return line

    async def _started(self) -> asyncio.subprocess.Process:
        if self._child is not None:
            return self._child
        if self._stuck is not None:
            if self._stuck.returncode is None:
                raise DriverFault(
                    f"NVML process {self._stuck.pid} hangs in the kernel and cannot be killed; "
                    "the node needs a driver reset or a reboot"
                )
            self._stuck = None
        wait_s = self._not_before_s - self._clock()
        if wait_s > 0:
            raise DriverFault(self._last_problem)
        try:
            self._child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LINE_LIMIT_BYTES,
                start_new_session=True,  # Ctrl-C in a terminal is for the probe
            )
        except OSError as error:
            raise DriverFault(f"cannot start the NVML process: {error.strerror}") from error
        self.start_count += 1
        return self._child

    async def _give_up(self, child: asyncio.subprocess.Process, problem: str) -> NoReturn:
        self._child = None
        ended = await self._end(child)
        if ended and child.returncode is not None and child.returncode < 0:
            name = signal.Signals(-child.returncode).name
            problem = f"{problem} ({name})" if name != "SIGKILL" else problem
        self._not_before_s = self._clock() + self._backoff.next_s()
        # The text stays the same until the driver works again: every change of it sends a Hello.
        self._last_problem = f"{problem}; it is started again"
        raise DriverFault(self._last_problem)

    async def _end(self, child: asyncio.subprocess.Process) -> bool:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may die between the two lines
                child.kill()
        if await self._reaped(child):
            return True
        self._stuck = child  # hangs in an uninterruptible driver call: start no second one
        return False

    async def _reaped(self, child: asyncio.subprocess.Process) -> bool:
        try:
            async with asyncio.timeout(_REAP_S):
                await child.wait()
        except TimeoutError:
            return False
        return True
