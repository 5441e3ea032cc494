"""Small simulations for tests: a cluster in a line, jobs in a line each."""

from collections.abc import Iterable, Iterator

from roost_engine.domain.events import Event, NodeSeen
from roost_engine.domain.model import Shape
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node, nvswitch, shape, topology
from roost_sim.figures.outcome import JobResult, Outcome
from roost_sim.runs.driver import Driver
from roost_sim.traces.arrival import Arrival
from roost_sim.worlds.world import FullSpeed, World


def cluster(node_count: int, gpu_count: int = 8, racks: int = 1) -> Iterator[Event]:
    """Nodes n0, n1, ... dealt out to the racks in turn, every GPU pair linked alike."""
    for number in range(node_count):
        spec = node(f"n{number}", gpu_count, rack=f"r{number % racks}")
        yield NodeSeen(at_s=0.0, node=spec)
        yield topology(spec.name, nvswitch(gpu_count))


def arrival(job_id: str, submit_s: float, work_s: float, gpus: int = 1, *shapes: Shape) -> Arrival:
    """A job of the trace: one node unless shapes are given."""
    spec = job(job_id, *(shapes or (shape(gpus),)), submit_s=submit_s)
    return Arrival(spec=spec, work_s=work_s, gpu_count=spec.gpu_count)


def new_driver(
    *,
    world: World | None = None,
    policies: Policies | None = None,
    config: EngineConfig | None = None,
    start_delay_s: float = 0.0,
) -> Driver:
    """A driver of a fresh engine."""
    engine = Engine(config or EngineConfig(), policies or Policies())
    return Driver(engine, world or FullSpeed(), start_delay_s=start_delay_s)


def simulate(
    events: Iterable[Event],
    *arrivals: Arrival,
    world: World | None = None,
    policies: Policies | None = None,
    config: EngineConfig | None = None,
    start_delay_s: float = 0.0,
) -> Outcome:
    """Run to the end and check that the engine's state agrees with itself."""
    driver = new_driver(world=world, policies=policies, config=config, start_delay_s=start_delay_s)
    outcome = driver.run(events, arrivals)
    driver.engine.check_invariants()
    return outcome


def times(outcome: Outcome) -> dict[str, tuple[float | None, float | None]]:
    """(start, end) of each job."""
    return {result.job_id: (result.started_s, result.ended_s) for result in outcome.jobs}


def result(outcome: Outcome, job_id: str) -> JobResult:
    """What became of one job."""
    return next(found for found in outcome.jobs if found.job_id == job_id)
