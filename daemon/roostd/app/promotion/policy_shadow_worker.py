"""The process in which a policy decides in shadow, so that the daemon's loop never waits for it.

It has an engine of its own, with the shadow's policy in its slot, and applies the events that the
daemon's engine applies. Its placements have no effect, so reality corrects it: a job that Slurm has
started elsewhere is there in this engine too, and a job whose GPUs another job got waits again.
The daemon talks to it as `worker_process` says.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TypeAlias

from roost_engine.domain.actions import Action, Place, WakeAt
from roost_engine.domain.events import (
    Event,
    JobChanged,
    JobQueued,
    JobStarted,
    PlacementRefused,
    PreemptionRefused,
    Tick,
)
from roost_engine.domain.model import JobId, JobSpec, Placement
from roost_engine.domain.tier import Tier
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobRecord, JobState, shares_of
from roost_engine.plugins.plugins import Models, Plugins
from roost_engine.policies.canary import Slot
from roost_engine.policies.protocols import ScorePolicy
from roost_engine.prediction.predictors import Predictors
from roost_engine.prediction.speed.speed_table import TableOfSpeeds
from roost_engine.scoring.heuristic import HeuristicScore
from roost_formats.journal.shadow import Choice, ShadowChoice
from roost_formats.models.gate import load_onnx_gate
from roost_formats.models.model_order import load_onnx_order
from roost_formats.models.score import load_any_score
from roostd.ops.worker_process import work

_NEVER_S = 1e12  # the shadow's placements are never started on purpose, so none is overdue


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowTask:
    """Begins a shadow.

    Attributes:
        slot, policy: what decides in shadow, in words.
        plugins: the choice of policies, with the shadow's in its slot.
        config: of the engine.
        order_path, gate_path: of the models in these slots; "": none.
        score_path: of the model that scores; "": the heuristic.
    """

    slot: Slot
    policy: str
    plugins: Plugins
    config: EngineConfig
    order_path: str = ""
    gate_path: str = ""
    score_path: str = ""


Step: TypeAlias = tuple[Event, tuple[tuple[JobId, Placement], ...]]
"""An event, and what the active policies placed in that step."""
Request: TypeAlias = ShadowTask | tuple[Step, ...]


class ShadowEngine:
    """The engine of a shadow.

    Args:
        task: what it decides by.
        score: scores the candidates.
        models: the other models.
    """

    def __init__(self, task: ShadowTask, score: ScorePolicy, models: Models) -> None:
        self._task = task
        policies = task.plugins.policies(score, models=models)
        if policies.predictors is None:  # for what is expected of jobs
            predictors = Predictors(TableOfSpeeds(task.plugins.speeds))
            if task.plugins.knowledge.predictors is not None:
                predictors.restore(task.plugins.knowledge.predictors)
            policies = replace(policies, predictors=predictors)
        self._predictors = policies.predictors
        self.engine = Engine(_unhurried(task.config), policies)
        self._placed_s: dict[JobId, float] = {}
        self._wake_at_s = inf

    def step(self, step: Step) -> Iterator[ShadowChoice]:
        """Apply an event; yield the choices about the jobs that the active policies placed."""
        event, places = step
        while self._wake_at_s <= event.at_s:
            at_s, self._wake_at_s = self._wake_at_s, inf
            self._note(self.engine.step(Tick(at_s=at_s)), at_s)
        if not isinstance(event, PlacementRefused | PreemptionRefused):
            self._note(self.engine.step(_bound(event)), event.at_s)
        for job_id, placement in places:
            yield self._choice(job_id, placement, event.at_s)

    def _note(self, actions: Sequence[Action], at_s: float) -> None:
        for action in actions:
            if isinstance(action, Place):
                self._placed_s[action.job_id] = at_s
            elif isinstance(action, WakeAt):
                self._wake_at_s = min(self._wake_at_s, max(action.at_s, at_s + 1e-3))

    def _choice(self, job_id: JobId, placement: Placement, at_s: float) -> ShadowChoice:
        record = self.engine.managed(job_id)
        mine, reason = None, "the shadow does not know the job"
        if record is not None:
            reason = record.reason or "it would still wait"
            if record.state is JobState.PLACING and record.placement is not None:
                placed_s = self._placed_s.pop(job_id, at_s)
                mine, reason = self._place(record, record.placement, placed_s), ""
        return ShadowChoice(
            at_s=at_s,
            job_id=job_id,
            slot=self._task.slot,
            policy=self._task.policy,
            active=self._place(record, placement, at_s),
            shadow=mine,
            reason=reason,
        )

    def _place(self, record: JobRecord | None, placement: Placement, at_s: float) -> Choice:
        expected_s = None if record is None else self._expected_s(record, placement.tier, at_s)
        return Choice(
            at_s=at_s,
            shares=shares_of(placement),
            tier=int(placement.tier),
            expected_end_s=None if expected_s is None else at_s + expected_s,
        )

    def _expected_s(self, record: JobRecord, tier: Tier, at_s: float) -> float | None:
        """Return how long a job is expected to run on a tier; None: no job like it has ended."""
        assert self._predictors is not None
        times = self._predictors.expected_times(record, at_s)
        if not times.job_count:
            return None
        speeds = self._predictors.speed.estimate(record.spec).speeds
        return times.rest_s() * speeds.at(record.tiers[1]) / speeds.at(tier)


def _unhurried(config: EngineConfig) -> EngineConfig:
    return replace(
        config,
        standing_pins=False,
        start_timeout_s=_NEVER_S,
        hand_over_s=_NEVER_S,
    )


def _bound(event: Event) -> Event:
    """Return an event whose job binds the shadow's engine, also where roostd only watches."""
    match event:
        case JobQueued() | JobChanged():
            return replace(event, job=_binding(event.job))
        case JobStarted() if event.job is not None:
            return replace(event, job=_binding(event.job))
        case _:
            return event


def _binding(job: JobSpec) -> JobSpec:
    return job if job.binding else replace(job, binding=True)


def begin(task: ShadowTask) -> ShadowEngine:
    """Load the models of a shadow and make its engine.

    Raises:
        PolicyError: a model does not load.
    """
    score: ScorePolicy = HeuristicScore()
    if task.score_path:
        score = load_any_score(Path(task.score_path), time.perf_counter)
    models = Models()
    if task.order_path:
        models = Models(order=load_onnx_order(Path(task.order_path), time.perf_counter))
    if task.gate_path:
        gate = load_onnx_gate(Path(task.gate_path), time.perf_counter)
        models = replace(models, gate=gate)
    return ShadowEngine(task, score, models)


class ShadowServer:
    """Answers the requests of the daemon with a shadow, which a fault ends."""

    def __init__(self) -> None:
        self._shadow: ShadowEngine | None = None

    def answer(self, request: Request) -> tuple[ShadowChoice, ...]:
        """Begin a shadow, or return its choices in a batch of steps; none without a shadow."""
        shadow, self._shadow = self._shadow, None
        if isinstance(request, ShadowTask):
            self._shadow = begin(request)
            return ()
        if shadow is None:
            return ()
        choices = tuple(choice for step in request for choice in shadow.step(step))
        self._shadow = shadow
        return choices


def main() -> None:
    """Be the process."""
    work(ShadowServer().answer)
