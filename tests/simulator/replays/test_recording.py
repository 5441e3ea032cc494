"""Recordings: models and their failures, gates, and what cannot be replayed."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray
from tests.simulator.journals import WrittenJournal, a_busy_day, rewrite
from tests.simulator.simulated import arrival, cluster

from roost_engine.domain.errors import PolicyError
from roost_engine.gate.dally import DallyConfig
from roost_engine.gate.delay import DelayConfig
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.policies.protocols import ScorePolicy
from roost_engine.testing.builders import shape
from roost_formats.journal.journal import FILE_NAME, Journal
from roost_formats.models.score import load_onnx_score
from roost_formats.testing.onnx_models import ModelParts, install_model
from roost_sim.cli import cli
from roost_sim.replays.recording import ModelShelf, Recording, RecordingError
from roost_sim.replays.replay import Replay, replay

# Answers as the heuristic does, but is no file that Roost ships.
OTHER_MODEL = replace(ModelParts(), graph_extra=b"").encode()


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *(str(argument) for argument in arguments)])


def replayed(path: Path, *models: Path) -> Replay:
    with Recording(path) as recording:
        return replay(recording, ModelShelf(models), lambda count: None)


def gated(folder: Path, gate: DelayConfig | DallyConfig) -> Path:
    """Thirty gangs that fit into a rack or, at once, across racks."""
    gangs = (arrival(str(n), n * 5.0, 60.0 + n, 8, shape(4, 2), shape(2, 4)) for n in range(30))
    with WrittenJournal(folder, plugins=Plugins(gate=gate)) as journal:
        journal.simulate(cluster(8, racks=4), *gangs)
        return journal.path


@pytest.mark.parametrize("gate", [DelayConfig(), DallyConfig()], ids=["delay", "dally"])
def test_a_gate_that_learns_is_repeated(tmp_path: Path, gate: DelayConfig | DallyConfig) -> None:
    assert replayed(gated(tmp_path, gate)).difference is None


def test_the_gate_that_is_repeated_is_the_one_of_the_run(tmp_path: Path) -> None:
    path = gated(tmp_path, DallyConfig())
    journal = Journal.open(tmp_path)
    journal._db.execute("DELETE FROM run_plugins")
    journal.close()
    difference = replayed(path).difference
    assert difference is not None
    assert difference.policies == ("gate: recorded dally, here open",)
    assert "  policy    gate: recorded dally, here open\n" in run(path).stdout


class Failing:
    """A model that is too slow for its third answer."""

    def __init__(self, model: ScorePolicy) -> None:
        self.name, self._model, self._count = model.name, model, 0

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        self._count += 1
        if self._count == 3:
            raise PolicyError("took 12.0 ms, more than 10 ms 3 times in a row")
        return self._model.score(features)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "model").mkdir()
    return install_model(tmp_path / "model", OTHER_MODEL)


@pytest.fixture
def scored(tmp_path: Path, model: Path) -> Path:
    """A journal whose decisions a model made, and once the heuristic in its place."""
    score = Failing(load_onnx_score(model, clock=lambda: 0.0))
    return a_busy_day(tmp_path, Policies(score=score))


def test_a_model_and_its_failures_are_repeated(scored: Path, model: Path) -> None:
    found = replayed(scored, model)
    assert found.difference is None
    assert found.runs[0].policy.startswith("onnx:")


def test_a_model_that_is_not_at_hand_is_asked_for(scored: Path) -> None:
    result = run(scored)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{scored}: run 1 was scored by onnx:" in result.stderr
    assert "that model is not at hand" in result.stderr
    assert "give its file, with the manifest beside it, by --model FILE" in result.stderr


def test_a_model_file_that_is_not_there_is_named(scored: Path, tmp_path: Path) -> None:
    result = run(scored, "--model", tmp_path / "none.onnx")
    assert result.exit_code == 2
    assert f"{tmp_path / 'none.onnx'}: No such file" in result.stderr


def test_without_the_runtime_a_model_cannot_be_repeated(
    scored: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    for module in ("onnx_session", "onnx_runtime"):
        monkeypatch.delitem(sys.modules, f"roost_formats.models.{module}", raising=False)
    with pytest.raises(RecordingError, match=r"onnxruntime cannot be imported.*roost\[daemon\]"):
        replayed(scored, model)


def test_the_heuristic_is_repeated_without_the_daemons_libraries(tmp_path: Path) -> None:
    path = a_busy_day(tmp_path)
    missing = ("onnxruntime", "grpc", "google", "structlog", "prometheus_client")
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({missing!r}));"
        "from roost_sim.cli import main; main()"
    )
    for arguments in ((), ("--policy", "sjf")):
        subprocess.run(
            [sys.executable, "-c", program, "replay", path, *arguments],
            check=True,
            capture_output=True,
        )


def truncated(path: Path) -> Path:
    os.truncate(a_busy_day(path.parent), 20_000)
    return path


def damaged(path: Path) -> Path:
    rewrite(a_busy_day(path.parent), "event", 7, b"\x05\x00")
    return path


def empty(path: Path) -> Path:
    path.touch()
    return path


def foreign(path: Path) -> Path:
    path.write_text("submit_s,duration_s,num_gpus\n")
    return path


def fresh(path: Path) -> Path:
    with WrittenJournal(path.parent):
        return path


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (truncated, "cut short; copy it again"),
        (damaged, "entry 7: record cannot be read"),
        (empty, "the file is empty; want journal.sqlite of roostd's paths.state_dir"),
        (foreign, "is no journal of roostd; want journal.sqlite"),
        (fresh, "holds no event yet; let roostd run for a while"),
        (lambda path: path, "No such file or directory; want journal.sqlite"),
    ],
)
@pytest.mark.parametrize("options", [[], ["--policy", "sjf"]])
def test_what_cannot_be_repeated_is_one_line(
    tmp_path: Path, make: object, complaint: str, options: list[str]
) -> None:
    assert callable(make)
    result = run(make(tmp_path / FILE_NAME), *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"roost-sim: {tmp_path / FILE_NAME}: ")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
