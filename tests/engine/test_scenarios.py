"""Runs tests/scenarios/*.yaml: a cluster, the events on it, and the expected actions.

A step is one event and the actions that the engine must return, if any. Placed jobs start at once.
The names of links are those of the sample matrices that roost_probe ships.
"""

from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel, ConfigDict
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import Action
from roost_engine.domain.events import GpuHealthChanged, NodeSeen
from roost_engine.domain.model import NodeName, Placement
from roost_engine.domain.topology import parse_topo_matrix
from roost_engine.engine import EngineConfig
from roost_engine.testing.builders import (
    job,
    node,
    placed,
    released,
    shape,
    topology,
    waits,
)
from roost_probe.testing.matrix import sample_text

SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").glob("*.yaml"))


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Node(Strict):
    links: str
    rack: str = ""
    cpus: int = 64
    features: list[str] = []
    partitions: list[str] = ["main"]


class Submit(Strict):
    job: int
    gpus: int
    nodes: int = 1
    cpus: int = 1
    priority: int = 0
    partition: str = "main"
    features: list[str] = []
    required: list[str] = []
    excluded: list[str] = []


class Fault(Strict):
    node: str
    gpu: int
    what: str


class Step(Strict):
    submit: Submit | None = None
    end: int | None = None
    advance_s: float | None = None
    fault: Fault | None = None
    drain: str | None = None
    resume: str | None = None
    placed: dict[int, str] = {}
    waits: dict[int, str] = {}
    released: dict[int, str] = {}


class Scenario(Strict):
    patience_s: float = 600.0
    nodes: dict[str, Node]
    steps: list[Step]


class Stage:
    """A scenario that runs on an engine."""

    def __init__(self, scenario: Scenario, make_harness: HarnessFactory) -> None:
        self._scenario = scenario
        self.harness = make_harness(config=EngineConfig(patience_s=scenario.patience_s))
        for name in scenario.nodes:
            self._see(name, usable=True)
            links = parse_topo_matrix(sample_text(scenario.nodes[name].links))
            self.harness.feed(topology(name, links))

    def play(self, step: Step) -> tuple[Action, ...]:
        match step:
            case Step(submit=Submit() as wanted):
                actions = self._submit(wanted)
            case Step(end=int() as ended):
                actions = self.harness.end(str(ended))
            case Step(advance_s=float() as by_s):
                actions = self.harness.advance(self.harness.now_s + by_s)
            case Step(fault=Fault() as fault):
                actions = self._fault(fault)
            case Step(drain=str() as name):
                actions = self._see(name, usable=False)
            case Step(resume=str() as name):
                actions = self._see(name, usable=True)
            case _:
                raise ValueError(f"a step without an event: {step}")
        self.harness.start()
        return actions

    def _submit(self, wanted: Submit) -> tuple[Action, ...]:
        spread = shape(wanted.gpus, wanted.nodes, cpus_per_node=wanted.cpus)
        options = wanted.model_dump(exclude={"job", "gpus", "nodes", "cpus"})
        now_s = self.harness.now_s
        return self.harness.queue(job(str(wanted.job), spread, submit_s=now_s, **options))

    def _fault(self, fault: Fault) -> tuple[Action, ...]:
        return self.harness.feed(
            GpuHealthChanged(
                at_s=self.harness.now_s,
                name=NodeName(fault.node),
                gpu_index=fault.gpu,
                fault=fault.what,
            )
        )

    def _see(self, name: str, usable: bool) -> tuple[Action, ...]:
        told = self._scenario.nodes[name]
        spec = node(
            name,
            parse_topo_matrix(sample_text(told.links)).gpu_count,
            cpu_count=told.cpus,
            rack=told.rack,
            features=told.features,
            partitions=told.partitions,
            usable=usable,
        )
        return self.harness.feed(NodeSeen(at_s=self.harness.now_s, node=spec))


def in_words(placement: Placement) -> str:
    indices = ",".join(map(str, placement.gpu_indices))
    return " ".join(f"{name}:{indices}" for name in placement.nodes)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path, make_harness: HarnessFactory) -> None:
    scenario = Scenario.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    stage = Stage(scenario, make_harness)
    for number, step in enumerate(scenario.steps, start=1):
        actions = stage.play(step)
        where = f"{path.name}, step {number}"
        came = {int(job_id): in_words(place) for job_id, place in placed(actions).items()}
        assert came == step.placed, where
        assert {int(j): wait.reason for j, wait in waits(actions).items()} == step.waits, where
        gone = {int(job_id): reason for job_id, reason in released(actions).items()}
        assert gone.keys() == step.released.keys(), where
        for job_id, reason in step.released.items():
            assert reason in gone[job_id], where


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 5
