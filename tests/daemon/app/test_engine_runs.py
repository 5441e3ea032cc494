"""A new run: a fresh engine of the present configuration, and a head from which to replay it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.daemon.app.parts import Parts, no_disk, recording

from roost_engine.domain.config import FINAL_PIN_AFTER_S, PIN_MARGIN_S, WIDER_AFTER_S
from roost_engine.domain.errors import ConfigError
from roost_engine.domain.events import JobQueued, Tick
from roost_engine.domain.model import JobId
from roost_engine.engine import EngineConfig
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.plugins.plugins import Knowledge, Plugins
from roost_engine.plugins.stacks import GateKind, OrderKind, PreemptionKind
from roost_engine.prediction.speed.speed_table import ModelSpeeds
from roost_engine.queue.learned_order import Fairness, LearnedOrder, LearnedOrderConfig
from roost_engine.scoring.neighbours import NeighbourScore
from roost_engine.testing.builders import job
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.journal import FILE_NAME
from roost_formats.journal.reader import JournalReader
from roostd.app.decision.recorder import Recorder
from roostd.app.engine_runs import EngineRuns, read_speeds
from roostd.app.observation.knowledge_keeper import KnowledgeKeeper
from roostd.config.config import Config
from roostd.telemetry.learned_pairs import pairs_of

NO_MODEL: dict[str, Any] = {"policy": {"model": "none"}}


def runs(parts: Parts, recorder: Recorder, speeds: tuple[ModelSpeeds, ...] = ()) -> EngineRuns:
    keeper = KnowledgeKeeper(Knowledge(), parts.state, recorder)
    return EngineRuns(parts.state, keeper, recorder, speeds)


def test_a_new_engine_has_the_policies_and_numbers_of_the_configuration() -> None:
    parts = Parts("n1", **NO_MODEL)
    engines = runs(parts, no_disk())
    parts.state.config = Config.model_validate(
        NO_MODEL | {"gate": {"kind": "delay"}, "engine": {"patience_s": 7.0}}
    )
    before = parts.state.engine

    engines.begin()

    assert parts.state.engine is not before
    assert isinstance(parts.state.engine.policies.gate, DelayGate)
    assert parts.state.engine.policies.score.name == parts.state.policy_model == "heuristic"
    assert len(parts.state.engine.cluster) == 0


def test_places_of_the_old_engine_can_still_be_explained() -> None:
    parts = Parts("n1", **NO_MODEL)
    for name in "12":
        parts.state.engine.step(JobQueued(at_s=100.0, job=job(name, gpus=8)))
    placement = parts.state.engine.record(JobId("1")).placement

    runs(parts, no_disk()).begin()

    (place,) = parts.state.earlier_decisions.values()  # job 2 waits
    assert (place.job_id, place.placement) == ("1", placement)


def test_a_model_that_cannot_be_loaded_is_a_fault_and_the_heuristic_answers(
    tmp_path: Path,
) -> None:
    missing = tmp_path / "model.onnx"
    parts = Parts("n1", policy={"model": str(missing)})

    with structlog.testing.capture_logs() as logs:
        runs(parts, no_disk()).begin()

    assert str(missing) in parts.state.policy_fault
    assert parts.state.policy_model == "heuristic"
    assert [entry["event"] for entry in logs] == ["policy_not_loaded"]
    parts.state.config = Config.model_validate(NO_MODEL)
    runs(parts, no_disk()).begin()
    assert parts.state.policy_fault == ""


async def test_the_journal_gets_all_that_a_replay_needs(tmp_path: Path) -> None:
    parts = Parts("n1", **NO_MODEL, gate={"kind": "delay"}, engine={"patience_s": 7.0})
    parts.clock.to_epoch_s = lambda engine_s: 1_700_000_000.0 + engine_s  # type: ignore[method-assign]
    async with recording(tmp_path) as recorder:
        runs(parts, recorder).begin()
        await recorder.wait_durable(recorder.append(Tick(at_s=100.0), ()))

    reader = JournalReader(tmp_path / FILE_NAME)
    head = reader.runs()[-1].head
    reader.close()

    assert (head.version, head.policy) == ("9.9", "heuristic")
    assert (head.epoch_of_zero_s, head.began_s) == (1_700_000_000.0, 100.0)
    of_slurm = EngineConfig(
        wider_after_s=WIDER_AFTER_S,
        standing_pins=True,
        standing_pins_are_final=True,
        standing_pin_if_overtaken=True,
        standing_pin_after_s=FINAL_PIN_AFTER_S,
        standing_pin_margin_s=PIN_MARGIN_S,
    )
    assert decode(head.config, EngineConfig) == replace(of_slurm, patience_s=7.0)
    assert isinstance(decode(head.plugins, Plugins).gate, DelayConfig)


@pytest.mark.parametrize(
    ("slot", "kind"),
    [
        *(("order", kind) for kind in OrderKind),
        *(("gate", kind) for kind in GateKind),
        *(("preemption", kind) for kind in PreemptionKind),
    ],
)
async def test_slots_are_named_as_configured_in_the_engine_and_in_the_journal(
    slot: str, kind: str, tmp_path: Path
) -> None:
    stops = {"partitions": {"main": {"mode": "enforce", "preemption": kind != "none"}}}
    allowed = stops if slot == "preemption" else {}
    parts = Parts("n1", **NO_MODEL | allowed | {slot: {"kind": kind}})
    async with recording(tmp_path) as recorder:
        runs(parts, recorder).begin()
        await recorder.wait_durable(recorder.append(Tick(at_s=100.0), ()))

    reader = JournalReader(tmp_path / FILE_NAME)
    head = reader.runs()[-1].head
    reader.close()

    assert parts.state.engine.policy_names[slot] == kind
    assert head.policies[slot] == kind


async def test_a_reload_changes_the_learned_order_keeps_what_it_knows_and_journals_it(
    tmp_path: Path,
) -> None:
    parts = Parts("n1", **NO_MODEL, order={"kind": "learned"})
    async with recording(tmp_path) as recorder:
        engines = runs(parts, recorder)
        engines.begin()
        predictors = parts.state.engine.policies.predictors
        assert predictors is not None
        predictors.history.add(job("7"), 60.0, 100.0)
        order = {"kind": "learned", "fairness": "strict", "window_s": 60.0}
        parts.state.config = Config.model_validate(NO_MODEL | {"order": order})
        engines.begin()
        await recorder.wait_durable(recorder.append(Tick(at_s=100.0), ()))

    reader = JournalReader(tmp_path / FILE_NAME)
    head = reader.runs()[-1].head
    reader.close()

    policy = parts.state.engine.policies.order
    expected = LearnedOrderConfig(fairness=Fairness.STRICT, window_s=60.0)
    assert isinstance(policy, LearnedOrder)
    assert policy.config == expected
    kept = parts.state.engine.policies.predictors
    assert kept is not None
    assert kept.history.state() == predictors.history.state()
    plugins = decode(head.plugins, Plugins)
    assert (plugins.order, plugins.learned_order) == (OrderKind.LEARNED, expected)
    assert plugins.knowledge.predictors is not None


def test_progress_corrects_the_score_of_neighbours_for_a_whole_run() -> None:
    parts = Parts("n1", policy={"model": "neighbours"}, placement={"kind": "wide"})
    engines, book = runs(parts, no_disk()), parts.state.progress
    engines.begin()
    score = parts.state.engine.policies.score
    assert isinstance(score, NeighbourScore)
    book.use_model(score.name)
    book.table.observe("1 lm", [("2 foe", "nic")], 0.1, 0.2, 0.5, "node")
    assert not score.corrections.knows("1 lm")  # the run has begun
    engines.begin()
    score = parts.state.engine.policies.score
    assert isinstance(score, NeighbourScore)
    assert score.corrections.knows("1 lm")
    assert engines.plugins.neighbours == pairs_of(book.table.state())
    again = decode(encode(engines.plugins), Plugins)  # the head of the run has it for a replay
    assert again.neighbours == engines.plugins.neighbours
    book.use_model("onnx:another")
    engines.begin()
    assert engines.plugins.neighbours == ()


def test_speeds_are_read_where_the_configuration_names_a_file(tmp_path: Path) -> None:
    assert read_speeds(Config()) == ()
    missing = tmp_path / "speeds.csv"
    config = Config.model_validate({"gate": {"speeds": str(missing)}})
    with pytest.raises(ConfigError, match=str(missing)):
        read_speeds(config)
