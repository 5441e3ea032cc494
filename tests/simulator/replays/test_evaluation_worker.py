"""evaluation_worker: one request, one answer, in a process of its own."""

import io
import subprocess
import sys
from pathlib import Path

from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Plugins
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.evaluation import (
    Contender,
    Evaluation,
    EvaluationFailed,
    EvaluationTask,
)
from roost_sim.replays import evaluation_worker


def request(path: Path) -> bytes:
    side = Contender(plugins=Plugins(), score="heuristic")
    return encode(
        EvaluationTask(
            journal=str(path), active=side, candidate=side, config=EngineConfig(), last_s=1e9
        )
    )


def test_it_answers_what_it_was_asked(three_jobs: Path) -> None:
    answers = io.BytesIO()
    evaluation_worker.serve(io.BytesIO(request(three_jobs)), answers)
    assert decode(answers.getvalue(), Evaluation).job_count == 3


def test_it_says_why_there_is_no_answer(tmp_path: Path) -> None:
    found = evaluation_worker.answer(request(tmp_path / "nothing"))
    assert isinstance(found, EvaluationFailed)
    assert "No such file" in found.reason
    damaged = evaluation_worker.answer(b"damaged")
    assert isinstance(damaged, EvaluationFailed)


def test_it_is_a_program(three_jobs: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", evaluation_worker.__name__],
        input=request(three_jobs),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert decode(told.stdout, Evaluation).active.avg_jct_s > 0.0
