"""Begins runs of the journal, each with a fresh engine and the RunHead that a replay needs."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import structlog

from roost_engine.domain.actions import Place
from roost_engine.domain.config import FINAL_PIN_AFTER_S, PIN_MARGIN_S
from roost_engine.domain.pair_correction import PairCorrection
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Models, Plugins
from roost_engine.policies.neighbour_losses import PredictsLosses
from roost_engine.policies.protocols import ScorePolicy
from roost_engine.prediction.run_time.run_time_model import RunTimeBlend
from roost_engine.prediction.speed.speed_table import ModelSpeeds
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.sharing.pairs import PairSpeed
from roost_formats.journal.codec import encode
from roost_formats.journal.records import RunHead
from roost_formats.models.run_times import load_run_time_model
from roost_formats.models.score import load_score_policy
from roostd.app.decision.earlier_waits import keep_waits
from roostd.app.decision.recorder import Recorder
from roostd.app.observation.knowledge_keeper import KnowledgeKeeper
from roostd.config.config import Config
from roostd.config.speed_file import load_speeds
from roostd.state import DaemonState
from roostd.telemetry.speed_source import pairs_of_sources

_log = structlog.get_logger(__name__)


Extend: TypeAlias = Callable[[Plugins], tuple[Plugins, Models]]


def _as_configured(plugins: Plugins) -> tuple[Plugins, Models]:
    return plugins, Models()


class EngineRuns:
    """Makes engines from the configuration in effect.

    Args:
        state: receives each engine.
        knowledge: what the policies of a fresh engine know.
        recorder: the journal.
        speeds: of the models that users may name; see `read_speeds`.
        shared_pairs: measured pairs; see pair_file.read_shared_pairs.
        extend: adds to the configured choice of policies what was promoted.

    Attributes:
        plugins: the choice of policies of the engine in service.
    """

    def __init__(
        self,
        state: DaemonState,
        knowledge: KnowledgeKeeper,
        recorder: Recorder,
        speeds: tuple[ModelSpeeds, ...],
        extend: Extend = _as_configured,
        shared_pairs: tuple[PairSpeed, ...] = (),
    ) -> None:
        self._extend, self.plugins = extend, Plugins()
        self._state, self._knowledge, self._recorder = state, knowledge, recorder
        self.speeds, self.shared_pairs = speeds, shared_pairs

    def begin(self) -> None:
        """Replace the engine by a fresh one, which continues the waits of the old engine.

        The old engine's placements can still be explained.
        """
        state = self._state
        zero_epoch_s = state.clock.to_epoch_s(0.0)
        score, run_times = self._load_score(), self._load_run_times(zero_epoch_s)
        choice, config = state.config.choice, self._engine_config()
        for job_id, record in state.engine.records():
            if record.placement is not None and record.decision is not None:
                place = Place(job_id=job_id, placement=record.placement, decision=record.decision)
                state.earlier_decisions[job_id] = place
        keep_waits(state)
        plugins = choice.plugins(self.speeds, self._knowledge.up_to_now())
        for note in choice.notes():
            _log.warning("stack_not_in_full_effect", note=note)
        stops, partitions = state.config.preemption, state.config.preempting_partitions()
        sharing = state.config.sharing.to_core(self.shared_pairs, stops, partitions)
        plugins = replace(plugins, neighbours=self._pairs(score), sharing=sharing)
        plugins, models = self._extend(plugins)
        policies = plugins.policies(score, run_times=run_times, models=models)
        state.engine = Engine(config, policies)
        state.policy_failures.clear()
        for slot, fault in state.promotion_faults.items():
            state.policy_failures[slot.value] = fault
        self.plugins = plugins
        self._recorder.begin_run(
            RunHead(
                version=state.version,
                policy=score.name,
                epoch_of_zero_s=zero_epoch_s,
                began_s=state.clock.now_s(),
                config=encode(config),
                plugins=encode(plugins),
                policies=state.engine.policy_names,
            )
        )

    @property
    def is_outdated(self) -> bool:
        """Whether Slurm has turned out to be another release than the engine was made for."""
        return self._engine_config() != self._state.engine.config

    def _engine_config(self) -> EngineConfig:
        """Return the engine's numbers, with those that depend on Slurm."""
        config, state = self._state.config, self._state
        # A job with a final pin can have no other GPUs, so Roost could stop no job for it.
        may_pin = state.can_pin_again or not config.preempting_partitions()
        # Slurm would start it when the first of two jobs on a GPU ends.
        may_pin = may_pin and not config.sharing.enabled
        return replace(
            config.choice.engine_config(),
            hand_over_s=config.slurm.hand_over_s,
            wider_after_s=config.slurm.hand_over_s,
            standing_pins=config.slurm.standing_pins and may_pin,
            standing_pins_are_final=not state.can_pin_again,
            standing_pin_if_overtaken=not state.can_pin_again,
            standing_pin_after_s=0.0 if state.can_pin_again else FINAL_PIN_AFTER_S,
            standing_pin_margin_s=PIN_MARGIN_S,
        )

    def _pairs(self, score: ScorePolicy) -> tuple[PairCorrection, ...]:
        """Return what the speed of jobs has taught of the model of a score, for the whole run."""
        if not isinstance(score, PredictsLosses):
            return ()
        return pairs_of_sources(self._state.speed_sources(), score.name)

    def _load_score(self) -> ScorePolicy:
        state, model = self._state, self._state.config.choice.in_effect.model
        score, fault = load_score_policy(model)
        state.policy_fault = fault or ""
        state.policy_model = model if score.name.startswith("onnx:") else HeuristicScore.name
        if fault:
            _log.error("policy_not_loaded", error=fault)
        return score

    def _load_run_times(self, zero_epoch_s: float) -> RunTimeBlend | None:
        state = self._state
        model, fault = load_run_time_model(state.config.order.run_time_model)
        state.run_times_fault = fault or ""
        if fault:
            _log.error("policy_not_loaded", error=fault)
        return None if model is None else RunTimeBlend(model=model, zero_epoch_s=zero_epoch_s)


def read_speeds(config: Config) -> tuple[ModelSpeeds, ...]:
    """Return the table of speeds that the configuration names; empty where it names none.

    Raises:
        ConfigError: the table cannot be used.
    """
    return load_speeds(config.gate.speeds) if config.gate.speeds is not None else ()
