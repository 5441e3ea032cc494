"""A recording: a journal of roostd with its runs, and an engine like that of each run.

A replay proves something only if it reads the journal with the daemon's reader and loads models
with the daemon's loader; both are in roost_formats and read files only.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from roost_engine.domain.actions import Action
from roost_engine.domain.errors import JournalError, PolicyError
from roost_engine.domain.events import Event
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.model_gate import GateModel
from roost_engine.plugins.plugins import Models, Plugins, Policies
from roost_engine.policies.canary import CanaryScore, Slot
from roost_engine.policies.protocols import ScorePolicy
from roost_engine.policies.slots import RUN_TIMES
from roost_engine.prediction.run_time.run_time_model import HISTORY_NAME, RunTimeBlend, RunTimeModel
from roost_engine.queue.model_order import AnyOrderModel
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.reader import Entry as Entry
from roost_formats.journal.reader import JournalReader
from roost_formats.journal.reader import Run as Run
from roost_formats.models.gate import load_onnx_gate
from roost_formats.models.model_order import load_onnx_order
from roost_formats.models.order import BUILTIN_SELECTOR
from roost_formats.models.run_times import load_onnx_run_times
from roost_formats.models.score import SHIPPED_MODELS, load_any_score
from roost_formats.models.signature import SCORE
from roost_sim.errors import SimError
from roost_sim.replays.recorded_faults import (
    FaultReplay,
    RecordedFaults,
    RecordedScore,
    may_hold_fault,
)

_T = TypeVar("_T")
_ONNX = "onnx:"


class RecordingError(SimError):
    """A journal cannot be used, or a model that a replay needs is not available."""


class Recording:
    """An open journal.

    Args:
        path: the file, or the folder that has it.

    Raises:
        RecordingError: the journal cannot be read, or holds no event.
    """

    def __init__(self, path: Path) -> None:
        with _as_refusal():
            self._reader = JournalReader(path)
            self.path = self._reader.path
            try:
                self.runs: Sequence[Run] = self._reader.runs()
            except JournalError:
                self._reader.close()
                raise
        if not any(run.step_count for run in self.runs):
            self.close()
            raise RecordingError(f"{self.path}: holds no event yet; let roostd run for a while")

    def __enter__(self) -> "Recording":
        """Return the recording for a `with` block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    @property
    def event_count(self) -> int:
        """Events of all runs."""
        return sum(run.step_count for run in self.runs)

    def entries(self, run: Run) -> Iterator[Entry]:
        """Yield the entries of a run, in order.

        Raises:
            RecordingError: the journal is damaged.
        """
        with _as_refusal():
            yield from self._reader.entries(run)

    def event(self, entry: Entry) -> Event:
        """Decode the event of an entry.

        Raises:
            RecordingError: the event cannot be read.
        """
        with _as_refusal():
            return self._reader.event(entry)

    def actions(self, entry: Entry) -> tuple[Action, ...]:
        """Decode the recorded actions of an entry.

        Raises:
            RecordingError: the actions cannot be read.
        """
        with _as_refusal():
            return self._reader.actions(entry)

    def config(self, run: Run) -> EngineConfig:
        """Return the engine's numbers in a run.

        Raises:
            RecordingError: they cannot be read.
        """
        return self._part_of_head(run, "configuration", run.head.config, EngineConfig)

    def plugins(self, run: Run) -> Plugins:
        """Return the gate and preemption of a run, and what they had learned when it began.

        Raises:
            RecordingError: they cannot be read.
        """
        record = run.head.plugins
        return self._part_of_head(run, "policies", record, Plugins) if record else Plugins()

    def close(self) -> None:
        """Close the file."""
        self._reader.close()

    def _part_of_head(self, run: Run, name: str, record: bytes, kind: type[_T]) -> _T:
        try:
            return decode(record, kind)
        except JournalError as error:
            raise RecordingError(
                f"{self.path}: run {run.number}: its {name}: {error}; roostd {run.head.version}"
                " wrote it, this may be an older one"
            ) from error


class ModelShelf:
    """The models available to replay runs that a model scored.

    Args:
        paths: model files, each with its manifest beside it; the packaged models need not be named.
    """

    def __init__(self, paths: Sequence[Path] = ()) -> None:
        self._paths = (*paths, *SHIPPED_MODELS.values(), BUILTIN_SELECTOR)

    def score_of(self, run: Run, source: Path) -> ScorePolicy:
        """Load the score policy that a run was recorded with.

        Raises:
            RecordingError: its model is not available, or does not load.
        """
        where = f"{source}: run {run.number} was scored by {run.head.policy}"
        return self.score(run.head.policy, where)

    def score(self, name: str, where: str) -> ScorePolicy:
        """Load the score policy of a name.

        Args:
            name: "heuristic", or "onnx:" and twelve digits of a model's sha256.
            where: the part that has it, for the error.

        Raises:
            RecordingError: its model is not available, or does not load.
        """
        if name == HeuristicScore.name:
            return HeuristicScore()
        return self._load(name, where, load_any_score)

    def models_of(self, plugins: Plugins, where: str) -> Models:
        """Load the other models of a choice of policies.

        Raises:
            RecordingError: a model is not available, or does not load.
        """
        order = self._order(plugins.order_model, where)
        models = Models(order=order, gate=self._gate(plugins.gate_model, where))
        canary = plugins.canary
        if canary is None or not canary.model:
            return models
        match canary.slot:
            case Slot.SCORE:
                return replace(models, canary_score=self.score(canary.model, where))
            case Slot.GATE:
                return replace(models, canary_gate=self._gate(canary.model, where))
            case _:
                return replace(models, canary_order=self._order(canary.model, where))

    def _order(self, name: str, where: str) -> AnyOrderModel | None:
        if not name:
            return None
        return self._load(name, where, load_onnx_order)

    def _gate(self, name: str, where: str) -> GateModel | None:
        return self._load(name, where, load_onnx_gate) if name else None

    def run_times_of(self, run: Run, source: Path) -> RunTimeModel | None:
        """Load the model of run times that a run was recorded with; None: it had none.

        Raises:
            RecordingError: its model is not available, or does not load.
        """
        name = run.head.policies.get(RUN_TIMES, HISTORY_NAME)
        if name == HISTORY_NAME:
            return None
        where = f"{source}: run {run.number} predicted run times by {name}"
        return self._load(name, where, load_onnx_run_times)

    def _load(self, name: str, where: str, load: Callable[[Path, Callable[[], float]], _T]) -> _T:
        if not name.startswith(_ONNX):
            raise RecordingError(f"{where}, which this version does not know: update Roost")
        path = self._find(name.removeprefix(_ONNX))
        if path is None:
            at_hand = ", ".join(f"{path} is {_ONNX}{_digest(path)[:12]}" for path in self._paths)
            raise RecordingError(
                f"{where}, and that model is not at hand ({at_hand}); give its file, with the"
                " manifest beside it, by --model FILE"
            )
        try:
            return load(path, lambda: 0.0)
        except PolicyError as error:
            cure = "; pip install 'roost[daemon]'" if "onnxruntime" in str(error) else ""
            raise RecordingError(f"{where}: {path}: {error}{cure}") from error

    def _find(self, digits: str) -> Path | None:
        return next((path for path in self._paths if _digest(path).startswith(digits)), None)


def policies_of(
    recording: Recording, run: Run, models: ModelShelf, *, knowledge_of: Run | None = None
) -> Policies:
    """Make the plug-ins that roostd made for a run.

    Args:
        recording: the journal.
        run: whose plug-ins to make.
        models: where the run's model is found.
        knowledge_of: the run whose knowledge, at its beginning, the plug-ins start with; None:
            `run`.

    Raises:
        RecordingError: the run's model is not available, or its head cannot be read.
    """
    score = models.score_of(run, recording.path)
    plugins = recording.plugins(run)
    if knowledge_of is not None:
        plugins = replace(plugins, knowledge=recording.plugins(knowledge_of).knowledge)
    loaded = models.models_of(plugins, f"{recording.path}: run {run.number}")
    model = models.run_times_of(run, recording.path)
    blend = None
    if model is not None:
        faulty = RecordedFaults.of(RUN_TIMES, model)
        blend = RunTimeBlend(model=faulty, zero_epoch_s=run.head.epoch_of_zero_s)
    policies = plugins.policies(score, run_times=blend, models=loaded)
    return replace(policies, score=_as_recorded(policies.score))


def _as_recorded(score: ScorePolicy) -> ScorePolicy:
    """Let what a score slot holds fail where it failed."""
    if isinstance(score, CanaryScore):
        active = RecordedScore.of(score.active)
        return CanaryScore(active, RecordedScore.of(score.candidate, active), score.share)
    return score if isinstance(score, HeuristicScore) else RecordedScore.of(score)


class RepeatedRun:
    """Repeats a run step by step with a fresh engine.

    Raises:
        RecordingError: the run's model is not available.
    """

    def __init__(self, recording: Recording, run: Run, models: ModelShelf) -> None:
        self._recording = recording
        self._faults = FaultReplay(policies_of(recording, run, models))
        self.engine = Engine(recording.config(run), self._faults.policies)

    def step(self, entry: Entry, event: Event) -> tuple[Action, ...]:
        """Give the engine the event of an entry, and its policies the faults recorded with it.

        Raises:
            RecordingError: the recorded actions are needed and cannot be read.
        """
        has_fault = may_hold_fault(entry.actions)
        self._faults.expect(self._recording.actions(entry) if has_fault else ())
        return self.engine.step(event)

    def is_as_recorded(self, entry: Entry, got: tuple[Action, ...]) -> bool:
        """Return whether the engine's actions are the recorded ones, byte for byte.

        A record of an earlier version may lack fields that have a default now; it is then decoded
        and encoded again before it is compared.

        Raises:
            RecordingError: the recorded actions cannot be read.
        """
        answer = encode(got)
        return answer == entry.actions or answer == encode(self._recording.actions(entry))


@contextmanager
def _as_refusal() -> Iterator[None]:
    try:
        yield
    except JournalError as error:
        raise RecordingError(str(error)) from error


def _digest(path: Path) -> str:
    """The sha256 of a model.

    Raises:
        RecordingError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.sha256(file.read(SCORE.limits.model_bytes + 1)).hexdigest()
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}; --model names an ONNX file") from error
