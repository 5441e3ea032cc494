"""The predictors of an engine: what is expected of a job's speed and of its run time.

The plug-ins own them. The engine reports every wait and every run to them, whatever the gate; gates
and preemption read them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from roost_engine.cluster.tiers import closest_tier, tier_of
from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.job_record import JobRecord
from roost_engine.policies.protocols import RunEnded, WaitEnded
from roost_engine.policies.slots import FaultLog
from roost_engine.prediction.backlog import Backlog
from roost_engine.prediction.noted_dict import NotedDict
from roost_engine.prediction.run_time.history import RunTimeHistory
from roost_engine.prediction.run_time.history_state import HistoryState
from roost_engine.prediction.run_time.prediction_skill import (
    PredictionSkill,
    SkillState,
    TrustConfig,
)
from roost_engine.prediction.run_time.run_time_model import (
    HISTORY_NAME,
    BlendedRunTimes,
    RunTimeBlend,
    RunTimeModel,
)
from roost_engine.prediction.run_time.run_times import RunTimes
from roost_engine.prediction.service import FIRST_GPU_S, KNOWN_FRESH_S, ServiceLeft, done_s
from roost_engine.prediction.speed.job_class import TimerClass
from roost_engine.prediction.speed.speed_predictor import (
    SpeedEstimate,
    SpeedPredictor,
    SpeedState,
    work_s,
)
from roost_engine.prediction.speed.tier_speeds import SpeedTable
from roost_engine.prediction.user_service import UserService, UserServiceState


@dataclass(frozen=True, slots=True)
class PredictorsState:
    """Everything learned, as plain data."""

    speed: SpeedState = field(default_factory=SpeedState)
    history: HistoryState = field(default_factory=HistoryState)
    users: UserServiceState = field(default_factory=UserServiceState)
    skill: SkillState = field(default_factory=SkillState)


class Predictors:
    """Speed by tier, and run time, of every job.

    Args:
        table: speeds of the models that jobs may name.
        reads_limits: see RunTimeHistory.
        blend: a model of run times beside the history; None: the history alone.
        history: of run times; None: an empty one.
        trust: how the skill of predictions becomes trust.
        earned_trust: whether `service_left` counts forecasts only as far as they are trusted.
    """

    def __init__(
        self,
        table: SpeedTable | None = None,
        reads_limits: bool = True,
        blend: RunTimeBlend | None = None,
        history: RunTimeHistory | None = None,
        trust: TrustConfig | None = None,
        earned_trust: bool = True,
    ) -> None:
        self.speed = SpeedPredictor(table)
        self.history = history or RunTimeHistory(reads_limits)
        self.backlog = Backlog()
        self.users = UserService()
        self._trust = trust
        self.skill = PredictionSkill(None, trust)
        self._blended = None if blend is None else BlendedRunTimes(self.history, blend)
        # Not a method: predictors in no reference cycle are freed with their engine.
        asked = self._blended or self.history
        forecasts = (
            partial(_run_times, asked),
            partial(_expected_times, self.history, self._blended),
        )
        self.service_left = ServiceLeft(*forecasts, skill=self.skill if earned_trust else None)
        self.known_left = ServiceLeft(
            *forecasts, self.history.knows_size_of_user, FIRST_GPU_S, KNOWN_FRESH_S
        )

    @property
    def run_time_model(self) -> RunTimeModel | None:
        """The model of run times that is asked; None: the history answers alone."""
        return None if self._blended is None else self._blended.model

    @property
    def run_times_name(self) -> str:
        """The name of what predicts run times."""
        return HISTORY_NAME if self._blended is None else self._blended.model.name

    def report_faults_to(self, faults: FaultLog) -> None:
        """Note faults of the model of run times there from now on."""
        if self._blended is not None:
            self._blended.report_faults_to(faults)

    def classified(self, job: JobRecord, closest: Tier) -> tuple[SpeedEstimate, TimerClass]:
        """Return what is expected of a job's speed, and the class of jobs that it belongs to.

        Args:
            job: the job.
            closest: the closest tier that it could have.
        """
        estimate = self.speed.estimate(job.spec)
        return estimate, TimerClass.of(job.spec.gpu_count, estimate.speeds.lost_frac(closest))

    def wait_began(self, job: JobRecord, at_s: float) -> None:
        """Note that a job waits: one that was stopped does not grow older meanwhile."""
        self.history.pause(job.job_id, done_s(job, at_s), at_s)

    def wait_ended(self, outcome: WaitEnded) -> None:
        """Note that a job runs, or is about to; or that it left without having run."""
        job, tier = outcome.job, outcome.tier
        self.backlog.start(job.job_id, 0 if tier is None else job.spec.gpu_count)
        self.users.leave(job.job_id)
        if tier is None:
            self.history.forget(job.job_id)
            self.skill.forget(job.job_id)
            self._drop_answer(job.job_id)
            return
        self.skill.begin(job.job_id)
        fits_a_node = any(shape.node_count == 1 for shape in job.spec.shapes)
        closest = Tier.NODE if fits_a_node else Tier.RACK
        speeds = self.speed.estimate(job.spec).speeds
        speed_frac = speeds.at(max(tier, closest)) / speeds.at(closest)
        self.history.begin(job.spec, done_s(job, outcome.at_s), speed_frac, outcome.at_s)

    def run_ended(self, run: RunEnded) -> None:
        """Learn how long and how fast a job ran."""
        self.backlog.end(run.job.job_id)
        self.service_left.forget(run.job.job_id)
        self.known_left.forget(run.job.job_id)
        closest = closest_tier(run.cluster, run.job.spec)
        speeds = self.speed.estimate(run.job.spec).speeds
        tier = tier_of(run.cluster, run.job.shares)
        ran_s = work_s(run.job, speeds, tier, closest, run.at_s)
        self.history.add(run.job.spec, ran_s, run.at_s)
        self.skill.end(run.job.job_id, ran_s)
        self._drop_answer(run.job.job_id)
        self.speed.learn(run)

    def holds(self, job_id: JobId, user_id: int, gpu_count: int, at_s: float) -> None:
        """Note how many GPUs a job holds now, under Roost or not; 0: it holds none."""
        self.users.hold(job_id, user_id, gpu_count, at_s)
        if gpu_count:
            self.backlog.start(job_id, gpu_count)
        else:
            self.backlog.end(job_id)

    def _drop_answer(self, job_id: JobId) -> None:
        if self._blended is not None:
            self._blended.forget(job_id)

    def run_times(self, job: JobRecord, at_s: float) -> RunTimes:
        """Return how long a job may still run, by the jobs like it."""
        return _run_times(self._blended or self.history, job, at_s)

    def expected_times(self, job: JobRecord, at_s: float) -> RunTimes:
        """Return the same, and note nothing: for readers outside the engine."""
        return _expected_times(self.history, self._blended, job, at_s)

    def state(self) -> PredictorsState:
        """Return everything learned, as plain data."""
        return PredictorsState(
            speed=self.speed.state(),
            history=self.history.state(),
            users=self.users.state(),
            skill=self.skill.state(),
        )

    def state_without_tables(self) -> PredictorsState:
        """Return what was learned and is in none of the `tables`."""
        speed = SpeedState(stretches=self.speed.stretches())
        skill = self.skill.state_without_table()
        return PredictorsState(speed=speed, users=self.users.state(), skill=skill)

    def tables(self) -> Mapping[str, NotedDict[Any, Any]]:
        """Return the tables of what was learned as they are now, by name."""
        return {**self.speed.tables(), **self.history.tables(), **self.skill.tables()}

    def restore(self, state: PredictorsState) -> None:
        """Restore what `state` returned, in place of everything learned since."""
        self.speed.restore(state.speed)
        self.history.restore(state.history)
        self.users = UserService.of(state.users)
        self.skill = PredictionSkill(state.skill, self._trust)
        if self.service_left.skill is not None:
            self.service_left.skill = self.skill


def _run_times(asked: RunTimeHistory | BlendedRunTimes, job: JobRecord, at_s: float) -> RunTimes:
    return asked.times(job.spec, done_s(job, at_s), at_s)


def _expected_times(
    history: RunTimeHistory, blended: BlendedRunTimes | None, job: JobRecord, at_s: float
) -> RunTimes:
    ask = history.times if blended is None else blended.peek
    return ask(job.spec, done_s(job, at_s), at_s)
