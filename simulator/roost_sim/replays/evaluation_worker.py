"""The process in which roostd has two policies compared: `python -m` this module.

It reads one EvaluationTask from standard input, in the journal's codec, and writes one Evaluation
or EvaluationFailed to standard output. roostd runs it at a low priority and reads the answer.
"""

import contextlib
import os
import sys
from typing import BinaryIO

from roost_engine.domain.errors import RoostError
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.evaluation import Evaluation, EvaluationFailed, EvaluationTask
from roost_sim.replays.policy_evaluation import evaluate

_NICENESS = 10  # the daemon's decisions go first


def answer(request: bytes) -> Evaluation | EvaluationFailed:
    """Return the comparison that a request asks for, or why there is none."""
    try:
        return evaluate(decode(request, EvaluationTask))
    except RoostError as error:
        return EvaluationFailed(reason=str(error))


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer one request."""
    answers.write(encode(answer(requests.read())))
    answers.flush()


def main() -> None:
    """Answer the request on standard input at a low priority."""
    with contextlib.suppress(OSError):  # the system call filter of roostd.service refuses it
        os.nice(_NICENESS)
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
