"""Gauges for Prometheus and the status line for systemd, from the daemon's state."""

import pytest
from prometheus_client import CollectorRegistry
from tests.daemon.app.parts import Parts, no_disk

from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, NodeLost, NodeSeen, Tick
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node, share
from roostd.app.gauges import set_gauges, status_line
from roostd.ops.metrics import Metrics
from roostd.telemetry.foreign_memory import Foreign, ForeignMemory


class Gauges:
    """The gauges of one state."""

    def __init__(self, parts: Parts) -> None:
        self.metrics, self.recorder, self.parts = Metrics(CollectorRegistry()), no_disk(), parts

    def value(self, name: str, **labels: str) -> float | None:
        set_gauges(self.metrics, self.parts.state, self.recorder)
        return self.metrics.registry.get_sample_value(f"roost_{name}", labels)


def test_jobs_are_counted_by_state_and_a_state_without_jobs_is_zero() -> None:
    parts = Parts("n1")
    gauges = Gauges(parts)
    for name in "12":
        parts.state.engine.step(JobQueued(at_s=100.0, job=job(name, gpus=8)))
    assert [gauges.value("jobs", state=name) for name in ("placing", "waiting")] == [1, 1]

    shares = (share("n1", *range(8)),)
    parts.state.engine.step(JobStarted(at_s=101.0, job_id=JobId("1"), shares=shares))

    counts = [gauges.value("jobs", state=name) for name in ("placing", "waiting", "running")]
    assert counts == [0, 1, 1]
    parts.state.engine.step(JobEnded(at_s=102.0, job_id=JobId("2")))
    assert gauges.value("jobs", state="waiting") == 0
    assert gauges.value("jobs", state="ended") is None


def test_gpus_of_nodes_that_slurm_closed_or_dropped_are_not_counted() -> None:
    parts = Parts("n1", "n2", "n3")
    gauges = Gauges(parts)
    started = JobStarted(at_s=100.0, job_id=JobId("1"), shares=(share("n1", 0, 1, 2),))
    parts.state.engine.step(started)
    assert [gauges.value("gpus", state=name) for name in ("free", "held")] == [21, 3]

    parts.state.engine.step(NodeSeen(at_s=101.0, node=node("n2", usable=False)))
    parts.state.engine.step(NodeLost(at_s=101.0, name=NodeName("n3")))

    assert [gauges.value("gpus", state=name) for name in ("free", "held")] == [5, 3]
    assert gauges.value("nodes") == 2


def test_gpus_with_memory_of_no_job_are_counted_apart_where_a_job_holds_them() -> None:
    parts = Parts("n1")
    gauges = Gauges(parts)
    for gpu, held_by in enumerate([None, JobId("1"), JobId("1")]):
        found = Foreign(ForeignMemory(5 << 30), held_by, 0.0)
        parts.state.foreign[NodeName("n1"), gpu] = found
    states = ("free", "held")
    assert [gauges.value("foreign_memory_gpus", state=name) for name in states] == [1, 2]
    parts.state.foreign.clear()
    assert [gauges.value("foreign_memory_gpus", state=name) for name in states] == [0, 0]


@pytest.mark.parametrize("fault", ["slurm_fault", "journal_fault", "policy_fault"])
def test_a_fault_is_one_while_it_lasts(fault: str) -> None:
    parts = Parts("n1")
    gauges = Gauges(parts)
    assert gauges.value(fault) == 0
    setattr(parts.state, fault, "it is broken")
    assert gauges.value(fault) == 1
    setattr(parts.state, fault, "")
    assert gauges.value(fault) == 0


def test_steps_that_no_disk_took_are_counted() -> None:
    gauges = Gauges(Parts("n1"))
    for _ in range(3):
        gauges.recorder.append(Tick(at_s=1.0), ())
    assert gauges.value("journal_dropped_records") == 3


def test_the_policy_of_each_slot_is_named_and_a_policy_that_left_is_not() -> None:
    gauges = Gauges(Parts("n1"))
    gauges.metrics.policies.labels("score", "onnx:0123456789ab").set(1)
    assert gauges.value("policy_info", slot="score", policy="heuristic") == 1
    assert gauges.value("policy_info", slot="score", policy="onnx:0123456789ab") is None


def test_the_status_line_counts_jobs_and_tells_every_fault() -> None:
    parts = Parts("n1")
    for name in "123":
        parts.state.engine.step(JobQueued(at_s=100.0, job=job(name, gpus=8)))
    assert status_line(parts.state) == "2 jobs wait, 1 placed"

    parts.state.slurm_fault, parts.state.journal_fault = "no answer", "disk full"
    assert status_line(parts.state) == "2 jobs wait, 1 placed; no answer; disk full"


def test_stranded_gpus_are_counted_and_told() -> None:
    parts = Parts("n1")
    gauges = Gauges(parts)
    assert gauges.value("stranded_gpus") == 0
    parts.state.stranded_gpus = {NodeName("n1"): 3}
    assert gauges.value("stranded_gpus") == 3
    assert status_line(parts.state).endswith("3 of n1; cure: scontrol reconfigure")


def test_jobs_that_wait_in_slurm_and_jobs_that_its_rules_hold_back_are_counted() -> None:
    parts = Parts("n1")
    gauges = Gauges(parts)
    assert [gauges.value("standing_pins"), gauges.value("jobs_held_back")] == [0, 0]
    engine = parts.state.engine = Engine(
        EngineConfig(standing_pins=True, standing_pin_after_s=0.0), Policies()
    )
    engine.step(NodeSeen(at_s=100.0, node=node("n1")))
    for name in "123":
        engine.step(JobQueued(at_s=100.0, job=job(name, gpus=8)))
    shares = (share("n1", *range(8)),)
    engine.step(JobStarted(at_s=101.0, job_id=JobId("1"), shares=shares))
    parts.state.held_back_count = 4
    assert [gauges.value("standing_pins"), gauges.value("jobs_held_back")] == [1, 4]
