"""What the tests of the engine ask it and tell it, shorter than in full."""

from tests.engine.conftest import HarnessFactory

from roost_engine.domain.actions import Decision
from roost_engine.domain.events import (
    GpuHealthChanged,
    JobChanged,
    JobWithdrawn,
)
from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_engine.engine import EngineConfig
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    node,
    placed,
    released,
    share,
    waits,
)


def decision(harness: EngineHarness, job_id: str) -> Decision:
    found = harness.engine.record(JobId(job_id)).decision
    assert found is not None
    return found.get()


def withdraw(harness: EngineHarness, job_id: str, reason: str = "held by its user") -> None:
    harness.feed(JobWithdrawn(at_s=harness.now_s, job_id=JobId(job_id), reason=reason))


def change(harness: EngineHarness, spec: JobSpec) -> dict[str, object]:
    actions = harness.feed(JobChanged(at_s=harness.now_s, job=spec))
    return {**placed(actions), **waits(actions), **released(actions)}


def fault(harness: EngineHarness, name: str, gpu: int, what: str) -> dict[str, object]:
    event = GpuHealthChanged(at_s=harness.now_s, name=NodeName(name), gpu_index=gpu, fault=what)
    return dict(placed(harness.feed(event)))


def impatient(make_harness: HarnessFactory, **options: object) -> EngineHarness:
    """Make two nodes with a job on each, and a large job past its patience; a is emptier."""
    harness = make_harness(
        [node("a"), node("b")], bridges(), config=EngineConfig(patience_s=60.0), **options
    )
    harness.start_elsewhere("on-a", share("a", 0))
    harness.start_elsewhere("on-b", share("b", 0, 1, 2, 3))
    harness.queue(job("1", gpus=8))
    harness.advance(60.0)
    return harness
