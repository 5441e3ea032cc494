"""observation.activity_meter: whose activity is learned from, and whose is not."""

from dataclasses import replace
from math import log
from typing import Any

import pytest
from tests.daemon.rpc.probes import floats, hello, sample
from tests.daemon.rpc.served import ManualClock
from tests.engine.scoring.test_neighbours import FakeInterference

from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, NodeSeen, PairsSeen
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.scoring.neighbours import NeighbourScore
from roost_engine.testing.builders import job, node, share
from roostd.app.observation.activity_meter import ActivityMeter
from roostd.app.observation.pair_reporter import PairReporter
from roostd.config.config import Config
from roostd.rpc.messages.explanations import explanation
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.foreign_memory import ForeignMemory
from roostd.telemetry.probe_messages import read_hello

TRAINER, FOE = JobId("1"), JobId("2")


class Site:
    """Node a of four GPUs; a probe sends a sample every ten seconds."""

    def __init__(self, policies: Policies | None = None, **telemetry: Any) -> None:
        self.clock = ManualClock(0.0)
        board = ProbeBoard(self.clock.now_s, lambda event: None)
        score = NeighbourScore(FakeInterference())
        self.state = DaemonState(
            version="1",
            clock=self.clock,
            config=Config.model_validate({"telemetry": {"activity_speed": True} | telemetry}),
            engine=Engine(EngineConfig(), policies or Policies(score=score)),
            board=board,
        )
        self.engine = self.state.engine
        self.engine.step(NodeSeen(at_s=0.0, node=node("a", gpu_count=4)))
        self.report = board.apply_hello(read_hello(hello("a")), self)
        self.meter = ActivityMeter(self.state)
        self.memory_frac: float | None = 0.4
        self.sm_frac: float | None = 0.9

    def start(self, job_id: JobId, *gpus: int, name: str = "lm") -> None:
        at_s = self.clock.at_s
        self.engine.step(JobQueued(at_s=at_s, job=replace(job(job_id, gpus=len(gpus)), name=name)))
        self.engine.step(JobStarted(at_s=at_s, job_id=job_id, shares=(share("a", *gpus),)))

    def pass_time(self, duration_s: float) -> None:
        for at in range(int(duration_s / 10)):
            self.clock.at_s += 10.0
            by = (-0.01, 0.01, 0.0)[at % 3]
            columns = {
                name: floats(*[None if frac is None else frac + by] * 4)
                for name, frac in (
                    ("sm_frac", self.sm_frac),
                    ("memory_activity_frac", self.memory_frac),
                )
            }
            self.state.board.apply_sample(self.report, sample(1, 4, **columns), is_checked=True)
            self.meter.poll()

    def slow_down(self) -> None:
        """Let the trainer run alone, and then beside a neighbour with half the activity."""
        self.start(TRAINER, 0, 1)
        self.pass_time(1_300)
        self.start(FOE, 2, 3, name="foe")
        self.memory_frac = 0.2
        self.pass_time(1_000)

    @property
    def estimate(self) -> float | None:
        return self.state.activity.estimate(self.engine.record(TRAINER))


def test_activity_beside_a_neighbour_nudges_the_pair() -> None:
    site, told = Site(), list[Any]()
    site.slow_down()
    assert site.estimate == pytest.approx(log(2.0), abs=0.03)
    (kind,) = site.state.activity.table.kinds()
    assert kind.endswith(" lm")
    reporter = PairReporter(site.state, Plugins, told.append)
    site.clock.at_s += 61.0
    reporter.poll()
    assert told == []  # one estimate is not enough
    site.pass_time(30_000)
    reporter.poll()
    (event,) = told
    assert isinstance(event, PairsSeen)
    (pair,) = [pair for pair in event.pairs if pair.kind == kind]
    assert 0 < pair.mean <= 0.05
    assert not pair.is_bad
    assert site.engine.record(TRAINER).speed_frac is None  # the engine is told no speed


def test_explain_says_that_it_is_estimated() -> None:
    site = Site()
    site.slow_down()
    found = explanation(site.state, TRAINER).neighbour
    assert found == "50% of its speed lost, estimated from activity (weak)"
    site.engine.step(JobEnded(at_s=site.clock.at_s, job_id=TRAINER))
    assert "activity" not in explanation(site.state, TRAINER).neighbour


def test_nothing_happens_by_default() -> None:
    site = Site(activity_speed=False)
    site.slow_down()
    assert site.estimate is None
    assert site.state.speed_sources() == (site.state.progress,)


def test_nothing_happens_where_no_model_of_neighbours_decides() -> None:
    site = Site(policies=Policies())
    site.slow_down()
    assert site.estimate is None


def test_reported_progress_wins() -> None:
    site = Site()
    site.start(TRAINER, 0, 1)
    record = site.engine.record(TRAINER)
    for at_s, steps in ((0.0, 0), (30.0, 300)):
        site.state.progress.report(record, record.spec.user_id, steps, at_s, lambda: None)
    site.pass_time(1_300)
    site.start(FOE, 2, 3, name="foe")
    site.memory_frac = 0.2
    site.pass_time(1_000)
    assert site.estimate is None


def test_a_gpu_with_processes_of_no_job_says_nothing_of_its_job() -> None:
    site = Site()
    memory = ForeignMemory.__new__(ForeignMemory)
    site.state.foreign["a", 0] = memory  # type: ignore[index, assignment]
    site.slow_down()
    assert site.estimate is None


@pytest.mark.parametrize("quantity", ["sm_frac"])
def test_what_a_driver_does_not_report_is_not_slow(quantity: str) -> None:
    site = Site()
    site.start(TRAINER, 0, 1)
    site.pass_time(1_300)
    site.start(FOE, 2, 3, name="foe")
    setattr(site, quantity, None)
    site.pass_time(1_000)
    assert site.estimate is None


def test_a_probe_that_says_idle_is_not_slow() -> None:
    site = Site()
    site.start(TRAINER, 0, 1)
    site.pass_time(1_300)
    site.start(FOE, 2, 3, name="foe")
    site.sm_frac, site.memory_frac = 0.02, 0.02
    site.pass_time(1_000)
    assert site.estimate is None


def test_one_sample_is_counted_once() -> None:
    site = Site()
    site.start(TRAINER, 0, 1)
    site.pass_time(400)
    for _ in range(1_000):
        site.clock.at_s += 1.0
        site.meter.poll()  # the probe is silent
    assert not site.state.activity.learned().best
