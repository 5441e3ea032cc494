"""policy_shadow_worker: a second engine that follows what the first one's jobs really do."""

from pathlib import Path
from typing import Any

import pytest
from tests.formats.models.test_model_order import install

from roost_engine.domain.actions import Place
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.events import Event, JobEnded, JobQueued, JobStarted, NodeSeen
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import shares_of
from roost_engine.plugins.plugins import Models, Plugins, Policies
from roost_engine.plugins.stacks import OrderKind
from roost_engine.policies.canary import Slot
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import job, node
from roost_formats.journal.shadow import ShadowChoice
from roostd.app.promotion.policy_shadow_worker import (
    ShadowEngine,
    ShadowServer,
    ShadowTask,
    Step,
    begin,
)

TASK = ShadowTask(
    slot=Slot.ORDER,
    policy="order:las",
    plugins=Plugins(order=OrderKind.LAS),
    config=EngineConfig(),
)


class Both:
    """The daemon's engine, on a node of 8 GPUs, and a shadow beside it."""

    def __init__(self, task: ShadowTask = TASK, policies: Policies | None = None) -> None:
        self.engine = Engine(EngineConfig(), policies or Policies())
        self.shadow = ShadowEngine(task, HeuristicScore(), Models())
        self.choices: list[ShadowChoice] = []
        self.steps: list[Step] = []
        self.feed(NodeSeen(at_s=0.0, node=node("a")))

    def feed(self, event: Event) -> list[Place]:
        places = [one for one in self.engine.step(event) if isinstance(one, Place)]
        step = event, tuple((one.job_id, one.placement) for one in places)
        self.steps.append(step)
        self.choices += self.shadow.step(step)
        self.shadow.engine.check_invariants()
        return places

    def queue(self, at_s: float, *specs: JobSpec) -> None:
        for spec in specs:
            for place in self.feed(JobQueued(at_s=at_s, job=spec)):
                self.start(at_s, place)

    def start(self, at_s: float, place: Place) -> None:
        shares = shares_of(place.placement)
        self.feed(JobStarted(at_s=at_s, job_id=place.job_id, shares=shares))

    def end(self, at_s: float, job_id: str) -> None:
        for place in self.feed(JobEnded(at_s=at_s, job_id=JobId(job_id))):
            self.start(at_s, place)


def test_a_shadow_of_the_same_policy_never_differs() -> None:
    both = Both()
    both.queue(1.0, *(job(str(number), gpus=4, submit_s=1.0) for number in range(6)))
    for number in range(6):
        both.end(10.0 + number, str(number))
    assert [choice.job_id for choice in both.choices] == [str(number) for number in range(6)]
    assert not any(choice.differs for choice in both.choices)


def test_a_shadow_that_would_take_another_job_first_says_so() -> None:
    both = Both(ShadowTask(**{**_fields(), "plugins": Plugins(order=OrderKind.LEARNED)}))
    for number in range(6):  # short jobs of user 1, long ones of user 2 teach the shadow
        at_s, user = number * 1000.0, 1 + number % 2
        both.queue(at_s, job(f"t{number}", gpus=8, user_id=user, submit_s=at_s))
        both.end(at_s + (10.0 if user == 1 else 900.0), f"t{number}")
    both.queue(7000.0, job("held", gpus=8, user_id=3, submit_s=7000.0))
    both.queue(7001.0, job("long", gpus=8, user_id=2, submit_s=7001.0))
    both.queue(7002.0, job("short", gpus=8, user_id=1, submit_s=7002.0))
    both.choices.clear()
    both.end(7100.0, "held")
    (long,) = both.choices
    assert (long.job_id, long.differs, long.shadow) == ("long", True, None)
    both.end(8000.0, "long")
    short = both.choices[-1]
    assert (short.job_id, short.differs) == ("short", False)
    assert short.active.expected_end_s is not None
    assert 8000.0 < short.active.expected_end_s < 8900.0


def _fields() -> dict[str, Any]:
    return {name: getattr(TASK, name) for name in ("slot", "policy", "plugins", "config")}


def test_jobs_that_the_daemon_only_watches_bind_the_shadow() -> None:
    both = Both()
    both.feed(JobQueued(at_s=1.0, job=job("1", gpus=8, binding=False)))
    both.feed(JobQueued(at_s=1.0, job=job("2", gpus=8, binding=False)))
    first, second = both.choices
    assert first.shadow is not None
    assert second.shadow is None
    assert second.reason


def test_the_process_answers_each_batch_and_a_fault_ends_the_shadow() -> None:
    both, server = Both(), ShadowServer()
    both.queue(1.0, job("1"))
    steps = tuple(both.steps)
    assert server.answer(TASK) == ()
    assert server.answer(steps) == tuple(both.choices)
    with pytest.raises(ValueError, match="unpack"):
        server.answer(("no step",))  # type: ignore[arg-type]
    assert server.answer(steps) == ()


def test_models_are_loaded_where_the_task_names_them(tmp_path: Path) -> None:
    path = install(tmp_path)
    shadow = begin(ShadowTask(**{**_fields(), "order_path": str(path)}))
    assert shadow.engine.policy_names["order"].startswith("onnx:")
    with pytest.raises(PolicyError):
        begin(ShadowTask(**{**_fields(), "score_path": str(path)}))
