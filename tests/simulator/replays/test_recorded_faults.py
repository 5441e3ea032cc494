"""Faults of policies that depend on time: a replay takes them from the record."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.simulator.journals import EPOCH_S, WrittenJournal
from tests.simulator.simulated import arrival, cluster

from roost_engine.domain.actions import Place, PolicyFailed
from roost_engine.domain.config import EngineConfig
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.events import JobQueued, NodeSeen
from roost_engine.domain.lazy import Lazy
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine
from roost_engine.gate.dally import DallyConfig
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.job_record import JobRecord
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.plugins.stacks import OrderKind
from roost_engine.policies.protocols import (
    GatePolicy,
    GateVerdict,
    Offer,
    RunEnded,
    SortKey,
    WaitEnded,
)
from roost_engine.policies.slots import JobPredictor, name_of
from roost_engine.prediction.run_time.run_time_model import RunTimeBlend, RunTimeModel
from roost_engine.preemption.network_preemption import NetworkPreemption, NetworkPreemptionConfig
from roost_engine.scoring.graph_score import GraphScore
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job, node, shape, waiting
from roost_engine.testing.graph_model import DrawnGraph
from roost_formats.models.run_times import load_onnx_run_times
from roost_formats.testing.run_time_models import install_run_times
from roost_sim.replays.recorded_faults import RecordedClusterScore, RecordedFaults, RecordedScore
from roost_sim.replays.recording import (
    ModelShelf,
    Recording,
    RecordingError,
    RepeatedRun,
    policies_of,
)
from roost_sim.replays.replay import replay
from roost_sim.traces.arrival import Arrival

LIMIT_S = 0.010
PREEMPTION = NetworkPreemptionConfig(partitions=("main",), lease_s=60.0, patience_s=30.0)


class Stopwatch:
    """A clock that every fifth answer takes 12 ms, and every other 1 ms."""

    def __init__(self) -> None:
        self.now_s, self._count = 0.0, 0

    def check(self) -> None:
        """Let an answer's time pass.

        Raises:
            PolicyError: it took too long.
        """
        began_s = self.now_s
        self._count += 1
        self.now_s += 0.001 if self._count % 5 else 0.012
        if self.now_s - began_s > LIMIT_S:
            raise PolicyError(f"answer {self._count} took {1e3 * (self.now_s - began_s):.1f} ms")


class SlowGate:
    """A gate that is too slow now and then."""

    def __init__(self, gate: GatePolicy, clock: Stopwatch) -> None:
        self._gate, self._clock, self.name = gate, clock, name_of(gate)

    def decide(self, offer: Offer) -> GateVerdict:
        verdict = self._gate.decide(offer)
        self._clock.check()
        return verdict

    def note(self, outcome: WaitEnded) -> None:
        self._gate.note(outcome)


class SlowPredictors:
    """A JobPredictor that is too slow now and then."""

    def __init__(self, predictors: JobPredictor, clock: Stopwatch) -> None:
        self._predictors, self._clock = predictors, clock
        self.name = name_of(predictors)

    def wait_began(self, job: JobRecord, at_s: float) -> None:
        self._predictors.wait_began(job, at_s)

    def wait_ended(self, outcome: WaitEnded) -> None:
        self._predictors.wait_ended(outcome)
        self._clock.check()

    def holds(self, job_id: JobId, user_id: int, gpu_count: int, at_s: float) -> None:
        self._predictors.holds(job_id, user_id, gpu_count, at_s)

    def run_ended(self, run: RunEnded) -> None:
        self._predictors.run_ended(run)
        self._clock.check()


class SlowPreemption(NetworkPreemption):
    """A preemption policy that is too slow now and then."""

    clock = Stopwatch()

    def lease_s(self, job: JobRecord) -> float:
        lease_s = super().lease_s(job)
        self.clock.check()
        return lease_s

    def displaces(self, job: JobRecord, victim: JobRecord, at_s: float) -> bool:
        verdict = super().displaces(job, victim, at_s)
        self.clock.check()
        return verdict

    def approve_move(self, job: JobRecord, tier: int, at_s: float) -> bool:
        verdict = super().approve_move(job, tier, at_s)
        self.clock.check()
        return verdict


def slow_gate(policies: Policies) -> Policies:
    return replace(policies, gate=SlowGate(policies.gate, Stopwatch()))


def slow_predictors(policies: Policies) -> Policies:
    assert policies.predictors is not None
    return replace(policies, predictors=SlowPredictors(policies.predictors, Stopwatch()))  # type: ignore[arg-type]


def slow_preemption(policies: Policies) -> Policies:
    assert policies.predictors is not None
    SlowPreemption.clock = Stopwatch()
    return replace(policies, preemption=SlowPreemption(PREEMPTION, policies.predictors.speed))


KINDS: dict[str, tuple[str, Plugins, Callable[[Policies], Policies]]] = {
    "delay": ("gate", Plugins(gate=DelayConfig()), slow_gate),
    "dally": ("gate", Plugins(gate=DallyConfig()), slow_gate),
    "predictors": ("prediction", Plugins(gate=DelayConfig()), slow_predictors),
    "preemption": ("preemption", Plugins(preemption=PREEMPTION), slow_preemption),
}


class SlowRunTimes:
    """A model of run times that is too slow now and then."""

    def __init__(self, model: RunTimeModel, clock: Stopwatch) -> None:
        self._model, self._clock, self.name = model, clock, model.name

    def ending_fracs(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        fracs = self._model.ending_fracs(features)
        self._clock.check()
        return fracs


def recorded_by_model(folder: Path, model: Path, slow: bool = True) -> Path:
    """Jobs of four users, of one GPU or four, in the order that a model of run times gives."""
    plugins = Plugins(order=OrderKind.LEARNED)
    loaded = load_onnx_run_times(model, lambda: 0.0)

    def as_run(policies: Policies) -> Policies:
        asked = SlowRunTimes(loaded, Stopwatch()) if slow else loaded
        blend = RunTimeBlend(model=asked, zero_epoch_s=EPOCH_S)
        return plugins.policies(policies.score, run_times=blend)

    jobs = list[Arrival]()
    for number in range(120):
        user, gpus = number % 4, 4 if number % 3 else 1
        one = arrival(f"{number}", number * 3.0, 10.0 * 3**user, gpus)
        jobs.append(replace(one, spec=replace(one.spec, user_id=user)))
    with WrittenJournal(folder, plugins=plugins, as_run=as_run) as journal:
        journal.simulate(cluster(1), *jobs)
        return journal.path


def is_reproduced_with(path: Path, *models: Path) -> bool:
    with Recording(path) as recording:
        return replay(recording, ModelShelf(models), lambda count: None).difference is None


def test_a_model_of_run_times_that_was_too_slow_is_repeated_byte_for_byte(tmp_path: Path) -> None:
    model = install_run_times(tmp_path / "model", band=20)
    path = recorded_by_model(tmp_path, model)

    found = list(faults(path))
    assert {(fault.slot, fault.policy[:5]) for fault in found} == {("run-times", "onnx:")}
    assert len(failed_questions(found)) > 10
    assert is_reproduced_with(path, model)
    with Recording(path) as recording:
        (run,) = recording.runs
        assert run.head.policies["run-times"].startswith("onnx:")
        again = RepeatedRun(recording, run, ModelShelf([model]))
        engine = Engine(recording.config(run), policies_of(recording, run, ModelShelf([model])))
        assert not all(
            again.is_as_recorded(entry, engine.step(recording.event(entry)))
            for entry in recording.entries(run)
        ), "without the recorded faults the order is another"


def test_a_model_of_run_times_that_answers_nan_does_so_again_by_itself(tmp_path: Path) -> None:
    model = install_run_times(tmp_path / "model", breaks_on_gangs=True)
    path = recorded_by_model(tmp_path, model, slow=False)
    found = list(faults(path))
    assert all("NaN" in fault.reason for fault in found)
    assert len(found) > 10
    assert is_reproduced_with(path, model)


def test_without_the_model_of_run_times_a_replay_is_refused(tmp_path: Path) -> None:
    model = install_run_times(tmp_path / "model", band=20)
    path = recorded_by_model(tmp_path, model)
    with pytest.raises(RecordingError, match=r"run 1 predicted run times by onnx:.*--model FILE"):
        is_reproduced_with(path)
    other = install_run_times(tmp_path / "other", band=21)
    with pytest.raises(RecordingError, match="that model is not at hand"):
        is_reproduced_with(path, other)


def recorded(
    folder: Path, plugins: Plugins, as_run: Callable[[Policies], Policies] | None = None
) -> Path:
    """Thirty gangs that fit into a rack or, at once, across racks, and may be stopped."""
    arrivals = (arrival(f"{n}", n * 5.0, 60.0 + n, 8, shape(4, 2), shape(2, 4)) for n in range(30))
    gangs = [replace(one, spec=replace(one.spec, checkpoint_s=10.0)) for one in arrivals]
    config = EngineConfig(patience_s=60.0)
    with WrittenJournal(folder, config=config, plugins=plugins, as_run=as_run) as journal:
        journal.simulate(cluster(8, racks=4), *gangs)
        return journal.path


def is_reproduced(path: Path) -> bool:
    with Recording(path) as recording:
        return replay(recording, ModelShelf(), lambda count: None).difference is None


def is_reproduced_without_faults(path: Path) -> bool:
    """Repeat a journal with policies that never are too slow."""
    with Recording(path) as recording:
        (run,) = recording.runs
        again = RepeatedRun(recording, run, ModelShelf())
        engine = Engine(recording.config(run), policies_of(recording, run, ModelShelf()))
        return all(
            again.is_as_recorded(entry, engine.step(recording.event(entry)))
            for entry in recording.entries(run)
        )


def faults(path: Path) -> Iterator[PolicyFailed]:
    with Recording(path) as recording:
        for entry in recording.entries(recording.runs[0]):
            for action in recording.actions(entry):
                if isinstance(action, PolicyFailed):
                    yield action


def failed_questions(found: Sequence[PolicyFailed]) -> list[int]:
    return [
        first + offset
        for fault in found
        for first, count in fault.questions
        for offset in range(count)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_that_was_too_slow_is_repeated_byte_for_byte(kind: str, tmp_path: Path) -> None:
    slot, plugins, as_run = KINDS[kind]
    path = recorded(tmp_path, plugins, as_run)

    found = list(faults(path))
    assert {fault.slot for fault in found} == {slot}
    assert all(fault.reason.endswith("took 12.0 ms") for fault in found)
    questions = failed_questions(found)
    assert len(questions) > 3
    assert questions == sorted(set(questions))
    assert is_reproduced(path)
    assert not is_reproduced_without_faults(path)


def test_a_fault_that_does_not_depend_on_time_occurs_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DelayGate.decide

    def decide(gate: DelayGate, offer: Offer) -> GateVerdict:
        if int(offer.job.spec.job_id) % 3 == 1:
            raise ZeroDivisionError("a bug")
        return real(gate, offer)

    monkeypatch.setattr(DelayGate, "decide", decide)
    path = recorded(tmp_path, Plugins(gate=DelayConfig()))

    assert len(list(faults(path))) > 3
    assert is_reproduced(path)


def test_faults_among_the_answers_of_one_step_are_repeated(tmp_path: Path) -> None:
    path = recorded(tmp_path, *KINDS["dally"][1:])
    assert any(len(fault.questions) > 1 for fault in faults(path))
    with Recording(path) as recording:
        (run,) = recording.runs
        again = RepeatedRun(recording, run, ModelShelf())
        for entry in recording.entries(run):
            again.step(entry, recording.event(entry))
        assert again.engine.fault_counts["gate"] == len(failed_questions(list(faults(path))))


def test_a_model_that_reads_the_cluster_is_asked_as_it_was() -> None:
    """The engine asks a graph model within its cluster, also when the run is repeated."""
    score = RecordedScore.of(GraphScore(DrawnGraph()))
    engine = Engine(EngineConfig(), Policies(score=score))
    engine.step(NodeSeen(at_s=0.0, node=node("a", 8)))
    first = engine.step(JobQueued(at_s=1.0, job=job("1", gpus=2)))
    assert engine.record(JobId("1")).decision.get().policy == "drawn"  # type: ignore[union-attr]
    place = next(action for action in first if isinstance(action, Place))
    failed = replace(place.decision.get(), fallback_reason="too slow")
    score.expect([replace(place, decision=Lazy.of(failed))])
    engine.step(JobQueued(at_s=2.0, job=job("2", gpus=2)))
    assert engine.record(JobId("2")).decision.get().fallback_reason == "too slow"  # type: ignore[union-attr]
    assert not isinstance(RecordedScore.of(HeuristicScore()), RecordedClusterScore)


def test_every_question_that_the_engine_asks_an_order_is_numbered() -> None:
    class Order:
        def note(self, job: JobRecord, at_s: float) -> None: ...

        def key_again(self, job: JobRecord, at_s: float) -> SortKey:
            return ()

    recorded: Any = RecordedFaults.of("order", Order())
    one = waiting(job("1"))
    failed = PolicyFailed(slot="order", policy="order", reason="too slow", questions=((2, 1),))
    recorded.expect(failed)
    recorded.note(one, 0.0)
    recorded.key_again(one, 0.0)
    with pytest.raises(PolicyError, match="too slow"):
        recorded.note(one, 1.0)
