"""A stack is the same in roostd and in the simulator: the same policies, the same actions."""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from types import FunctionType, MethodType

import pytest

from roost_engine.domain.actions import Action, Place, Preempt
from roost_engine.domain.events import Event
from roost_engine.domain.model import JobId, NodeShare
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.delay import DelayGate
from roost_engine.plugins.plugins import Knowledge, Plugins, Policies
from roost_engine.plugins.stacks import DEFAULT_PATIENCE_S, STACKS, PreemptionKind
from roost_engine.preemption.network_preemption import NetworkPreemption
from roost_engine.queue.orders import SpeedAchieved
from roost_formats.journal.codec import decode, encode
from roost_formats.models.score import load_score_policy
from roost_sim.catalogue.composition import Composition
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.presets import preset
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.information.progress import ProgressTable
from roost_sim.runs.driver import Driver
from roost_sim.runs.simulation import PARTITION, introduce
from roost_sim.traces.durations import limits_s
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.traces.shapes import ShapeRule, every_even_shape
from roost_sim.traces.workload import arrivals, job_ids
from roost_sim.worlds.world import PlacedWorld
from roostd.config.config import Config

NAMES = tuple(STACKS)


@dataclass(frozen=True)
class Built:
    """What decides in one of the two programs."""

    policies: Policies
    config: EngineConfig


def in_roostd(name: str) -> Built:
    """Build a stack as roostd does: configuration, plug-ins, journal, policies."""
    stops = STACKS[name].preemption is not PreemptionKind.NONE
    settings = {"stack": name, "partitions": {PARTITION: {"preemption": stops}}}
    config = Config.model_validate(settings)
    choice = config.choice
    plugins = decode(encode(choice.plugins((), Knowledge())), Plugins)
    score, fault = load_score_policy(choice.in_effect.model, lambda: 0.0)
    assert fault is None
    # As roostd.app.engine_runs has it.
    numbers = replace(choice.engine_config(), wider_after_s=config.slurm.hand_over_s)
    return Built(plugins.policies(score), numbers)


def in_simulator(name: str, progress: ProgressTable) -> Built:
    """Build a stack as the simulator does, without speeds of models."""
    policy = find_policy(name)
    information = PolicyInformation(
        work_s={}, seed=0, progress=progress, partitions=(PARTITION,), cluster_gpu_count=1
    )
    return Built(policy.build(information), policy.engine_config(EngineConfig()))


def described(part: object) -> object:
    """Return a policy as its types and numbers."""
    match part:
        case DelayGate() | NetworkPreemption():
            return type(part), part.config
        case MethodType():
            return part.__func__, described(part.__self__)
        case FunctionType():
            return part
        case SpeedAchieved():
            return type(part), part.speed is not None
    if dataclasses.is_dataclass(part):
        # The last question is no number of the policy.
        names = (field.name for field in dataclasses.fields(part) if field.name[0] != "_")
        return type(part), [(name, described(getattr(part, name))) for name in names]
    return part if isinstance(part, int | float | str | tuple) else type(part)


def parts_of(policies: Policies) -> Iterator[object]:
    yield from (policies.order, policies.candidates, policies.gate, policies.preemption)
    yield policies.score.name


@pytest.mark.parametrize("name", NAMES)
def test_types_and_numbers_are_the_same(name: str) -> None:
    roostd, simulator = in_roostd(name), in_simulator(name, ProgressTable())

    for one, other in zip(parts_of(roostd.policies), parts_of(simulator.policies), strict=True):
        assert described(one) == described(other)
    assert (roostd.policies.predictors is None) == (simulator.policies.predictors is None)
    assert roostd.config == simulator.config


def actions_of(built: Built, policy: Composition, shapes: ShapeRule) -> list[Action]:
    """Return the actions on a small trace of a stack that is asked for shapes by a rule."""
    found: list[Action] = []

    class Recording(Engine):
        def step(self, event: Event) -> tuple[Action, ...]:
            actions = super().step(event)
            found.extend(actions)
            return actions

    cluster = preset("small")
    trace = generate(HELIOS, 150, 5, max_gpu_count=24).at_load(1.3, cluster.gpu_count)
    limit_s = dict(zip(job_ids(trace), limits_s(trace, 5).tolist(), strict=True))
    jobs = arrivals(
        trace,
        shapes,
        cluster.largest_node_gpu_count,
        PARTITION,
        limit_s=limit_s if policy.asks_limits else None,
    )
    driver = Driver(
        Recording(built.config, built.policies),
        PlacedWorld(slower_apart),
        restart_s=lambda job_id, gpu_count: 40.0,
        reports_speed=policy.asks_speed,
    )
    driver.run(introduce(cluster), jobs)
    return found


def slower_apart(job_id: JobId, shares: tuple[NodeShare, ...]) -> float:
    return 1.0 if len(shares) == 1 else 0.6


@pytest.mark.parametrize("name", NAMES)
def test_actions_on_a_small_trace_are_the_same(name: str) -> None:
    policy = find_policy(name)
    simulated: Callable[[ShapeRule], list[Action]] = partial(
        actions_of, in_simulator(name, ProgressTable()), policy
    )

    # Slurm gives roostd every shape that the request allows; the simulator narrows them first.
    there, here = actions_of(in_roostd(name), policy, every_even_shape), simulated(policy.shapes)

    assert encode(tuple(there)) == encode(tuple(here))
    assert sum(isinstance(action, Place) for action in here) >= 150
    assert any(isinstance(action, Preempt) for action in here) == (policy.preemption != "none"), (
        "the trace is too calm to tell a rule from none"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_stack_is_a_policy_of_the_simulator_by_the_same_names(name: str) -> None:
    stack, policy = STACKS[name], find_policy(name)
    assert (policy.order, policy.preemption) == (stack.order, stack.preemption)
    scored = {"none": stack.placement.value, "builtin": f"onnx-{stack.placement.value}"}
    assert policy.placement == scored[stack.model]
    assert policy.gate.removeprefix("patient-").replace("patient", "open") == stack.gate


def test_the_patience_of_stacks_is_that_of_the_engine() -> None:
    assert EngineConfig().patience_s == DEFAULT_PATIENCE_S
