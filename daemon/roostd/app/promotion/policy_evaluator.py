"""Has two policies compared by the simulator, in a process of its own.

roostd does not import the simulator: it starts `python -m` its worker, writes the question to its
standard input and reads the answer, both in the journal's codec.
"""

import asyncio
import contextlib
import sys
from typing import Protocol

from roost_engine.domain.errors import JournalError, PolicyRefused
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.evaluation import Evaluation, EvaluationFailed, EvaluationTask

_WORKER = "roost_sim.replays.evaluation_worker"
_LIMIT_S = 3_600.0
_SHOWN_BYTES = 500

_ANSWER: type[Evaluation | EvaluationFailed] = Evaluation | EvaluationFailed  # type: ignore[assignment]


class NotEvaluated(PolicyRefused):
    """There is no comparison; the text says why."""


class Evaluator(Protocol):
    """Compares two policies elsewhere."""

    async def evaluate(self, task: EvaluationTask) -> Evaluation:
        """Return the comparison.

        Raises:
            NotEvaluated: there is none.
        """


class ProcessEvaluator:
    """An Evaluator that starts a process for each comparison.

    Args:
        limit_s: a comparison that takes longer is given up.
    """

    def __init__(self, limit_s: float = _LIMIT_S) -> None:
        self._limit_s = limit_s

    async def evaluate(self, task: EvaluationTask) -> Evaluation:
        """See Evaluator."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            _WORKER,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal is for the daemon
        )
        try:
            async with asyncio.timeout(self._limit_s):
                answer, complaint = await process.communicate(encode(task))
        except TimeoutError as error:
            raise NotEvaluated(
                f"no answer in {self._limit_s:g} s; take a shorter window"
            ) from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        return _read(answer, complaint)


def _read(answer: bytes, complaint: bytes) -> Evaluation:
    try:
        found = decode(answer, _ANSWER)
    except JournalError as error:
        output = complaint[-_SHOWN_BYTES:].decode("utf-8", "replace").strip()
        raise NotEvaluated(f"the simulator gave no answer: {output or error}") from error
    if isinstance(found, EvaluationFailed):
        raise NotEvaluated(found.reason)
    return found
