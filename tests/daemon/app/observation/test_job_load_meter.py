"""observation.job_load_meter: when the engine is told what jobs do to their GPUs over minutes."""

from dataclasses import replace
from typing import Any

import pytest
from tests.daemon.rpc.probes import floats, hello, sample
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.events import Event, JobEnded, JobLoadSeen, JobQueued, JobStarted, NodeSeen
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.sharing.pairs import PairSpeed, SharingConfig
from roost_engine.testing.builders import job, node, share
from roost_formats.journal.codec import decode, encode
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.app.observation.job_load_meter import JobLoadMeter
from roostd.config.config import Config
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.probe_messages import read_hello

TRAINER = JobId("1")
SHARING = SharingConfig(pairs=(PairSpeed("a", "a", 0.9),))


class Site:
    """Node a of four GPUs; a probe sends a sample every ten seconds."""

    def __init__(self, policies: Policies | None = None, **telemetry: Any) -> None:
        self.clock, self.told = ManualClock(0.0), list[JobLoadSeen]()
        board = ProbeBoard(self.clock.now_s, lambda event: None)
        self.state = DaemonState(
            version="1",
            clock=self.clock,
            config=Config.model_validate({"telemetry": {"job_loads": True} | telemetry}),
            engine=Engine(EngineConfig(), policies or Policies()),
            board=board,
        )
        self.state.engine.step(NodeSeen(at_s=0.0, node=node("a", gpu_count=4)))
        said = hello("a")
        card = said.nics.add(name="mlx5_0", bytes_per_s=50e9)
        card.gpu_levels.extend([pb.ANCESTOR_LEVEL_SYSTEM] * 4)
        self.report = board.apply_hello(read_hello(said), self)
        self.meter = JobLoadMeter(self.state, self._take)

    def _take(self, event: Event) -> None:
        assert isinstance(event, JobLoadSeen)
        assert decode(encode(event), JobLoadSeen) == event, "a journal keeps it"
        self.told.append(event)
        self.state.engine.step(event)

    def start(self, job_id: JobId, *gpus: int, seat: int = 0) -> None:
        spec = replace(job(job_id, gpus=len(gpus)), model="a", shares_gpus=True, gpu_memory_bytes=1)
        self.state.engine.step(JobQueued(at_s=self.clock.at_s, job=spec))
        shares = (replace(share("a", *gpus), seat=seat),)
        self.state.engine.step(JobStarted(at_s=self.clock.at_s, job_id=job_id, shares=shares))

    def pass_time(self, duration_s: float, *power_w: float, nic_bytes_per_s: float = 0.0) -> None:
        for at in range(int(duration_s / 10)):
            self.clock.at_s += 10.0
            sent = floats(nic_bytes_per_s * (1 + at % 2))
            power = floats(*[power_w[at % len(power_w)]] * 4)
            said = sample(1, 4, power_w=power, nic_tx_bytes_per_s=sent)
            self.state.board.apply_sample(self.report, said, is_checked=True)
            self.meter.poll()

    @property
    def stored(self) -> dict[str, float]:
        cluster = self.state.engine.cluster
        return dict(cluster.loads.job_load(TRAINER, cluster.shares(TRAINER)))


def test_a_window_is_reported_and_then_what_changes() -> None:
    site = Site()
    site.start(TRAINER, 0, 1)
    site.pass_time(290, 250.0, 450.0)
    assert site.told == []
    site.pass_time(30, 250.0, 450.0)
    (first,) = site.told
    assert first.load["power"] == pytest.approx(0.5, abs=0.01)
    assert first.load["power_variation"] == pytest.approx(0.222, abs=0.01)
    assert site.stored == first.load
    site.pass_time(900, 250.0, 450.0)
    assert len(site.told) == 1  # nothing has changed
    site.pass_time(700, 100.0)
    assert site.told[-1].load["power"] == pytest.approx(100 / 450, abs=1e-3)


def test_nothing_is_reported_by_default() -> None:
    site = Site(job_loads=False)
    site.start(TRAINER, 0, 1)
    site.pass_time(1_000, 250.0, 450.0)
    assert site.told == []


def test_a_job_beside_another_on_a_gpu_is_left_out() -> None:
    site = Site(Plugins(sharing=SHARING).policies(HeuristicScore()))
    site.start(TRAINER, 0)
    site.start(JobId("2"), 0, seat=1)
    site.pass_time(1_000, 250.0, 450.0)
    assert site.told == []


def test_a_silent_probe_reports_nothing() -> None:
    site = Site()
    site.start(TRAINER, 0, 1)
    for _ in range(1_000):
        site.clock.at_s += 1.0
        site.meter.poll()
    assert site.told == []


def test_another_run_is_another_window_and_the_ended_job_is_forgotten() -> None:
    site = Site()
    site.start(TRAINER, 0, 1)
    site.pass_time(400, 250.0, 450.0)
    assert site.stored
    site.state.engine.step(JobEnded(at_s=site.clock.at_s, job_id=TRAINER))
    assert site.stored == {}
    site.start(JobId("3"), 2)
    site.pass_time(400, 300.0)
    assert [event.job_id for event in site.told] == [TRAINER, "3"]
    assert list(site.state.engine.cluster.loads.of_job) == ["3"]


def test_a_fresh_engine_is_told_again() -> None:
    site = Site()
    site.start(TRAINER, 0, 1)
    site.pass_time(400, 250.0, 450.0)
    site.state.engine = Engine(EngineConfig(), Policies())
    site.state.engine.step(NodeSeen(at_s=site.clock.at_s, node=node("a", gpu_count=4)))
    site.start(TRAINER, 0, 1)
    site.pass_time(400, 250.0, 450.0)
    assert len(site.told) == 2
    assert site.stored


def test_a_network_card_counts_for_a_job_with_all_gpus_near_it() -> None:
    part, whole = Site(), Site()
    part.start(TRAINER, 0, 1, 2)
    whole.start(TRAINER, 0, 1, 2, 3)
    for site in (part, whole):
        site.pass_time(400, 300.0, nic_bytes_per_s=10e9)
    # 10 and 20 GB/s in turns: deviation a third of the mean, v / (1 + v) of it a quarter.
    assert whole.stored["nic_variation"] == pytest.approx(0.25, abs=0.01)
    assert "nic_variation" not in part.stored
    assert part.stored["power"] == whole.stored["power"]
