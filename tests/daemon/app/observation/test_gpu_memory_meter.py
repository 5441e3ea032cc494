"""What the meter of GPU memory learns of jobs, and what it leaves out."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.daemon.rpc.probes import hello, sample
from tests.daemon.rpc.served import ManualClock

from roost_engine.cluster.seats import Seats
from roost_engine.domain.events import (
    Event,
    JobEnded,
    JobQueued,
    JobStarted,
    MemorySeen,
    NodeSeen,
)
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.sharing.pairs import Pairs, SharingConfig
from roost_engine.testing.builders import job, node, shape, share
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.app.observation.gpu_memory_meter import GpuMemoryMeter
from roostd.config.config import Config
from roostd.config.sharing import SharingSection
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.probe_messages import read_hello

GIB = 1 << 30
ANN = 1001


def uints(*values: int | None) -> pb.UintColumn:
    mask = sum(1 << index for index, value in enumerate(values) if value is not None)
    return pb.UintColumn(present_mask=mask, values=[v for v in values if v is not None])


class Site:
    """Node a with four GPUs, and a meter that is polled each ten seconds."""

    def __init__(self, path: Path, *, enabled: bool = True, shares: bool = False) -> None:
        self.clock = ManualClock(0.0)
        self.board = ProbeBoard(self.clock.now_s, lambda event: None)
        sharing = Pairs(SharingConfig()) if shares else None
        engine = Engine(EngineConfig(), Policies(sharing=sharing))
        self.seen_gib: list[int] = []
        config = Config(sharing=SharingSection(enabled=enabled, pairs=path.with_name("pairs.csv")))
        self.state = DaemonState(
            version="1", clock=self.clock, config=config, engine=engine, board=self.board
        )
        self.meter = GpuMemoryMeter(self.state, path, self._take)
        engine.step(NodeSeen(at_s=0.0, node=node("a", gpu_count=4)))
        self.report = self.board.apply_hello(read_hello(hello("a")), self)

    def _take(self, event: Event) -> None:
        assert isinstance(event, MemorySeen)
        self.seen_gib.append(event.used_bytes // GIB)
        self.state.engine.step(event)

    def run(self, number: int, *gpus: int, duration_s: int, used_gib: list[int | None]) -> None:
        """Run a job to its end; all of its GPUs have been seen with these uses, in turn."""
        engine, job_id = self.state.engine, JobId(str(number))
        spec = replace(job(job_id, shape(len(gpus)), user_id=ANN), name=f"train-{number}")
        if self.state.engine.seating is not None:
            spec = replace(spec, shares_gpus=True, gpu_memory_bytes=12 * GIB)
        engine.step(JobQueued(at_s=self.clock.at_s, job=spec))
        shares = (share("a", *gpus),)
        engine.step(JobStarted(at_s=self.clock.at_s, job_id=job_id, shares=shares))
        for step in range(duration_s // 10):
            self.clock.at_s += 10.0
            used = used_gib[min(step, len(used_gib) - 1)]
            each = [used * GIB if used is not None and gpu in gpus else 0 for gpu in range(4)]
            column = uints(*each) if used is not None else uints(*[None] * 4)
            message = sample(1, 4)
            message.memory_used_bytes.CopyFrom(column)
            self.board.apply_sample(self.report, message, is_checked=True)
            self.meter.poll()
        engine.step(JobEnded(at_s=self.clock.at_s, job_id=job_id))
        self.clock.at_s += 30.0
        self.meter.poll()


def test_three_runs_teach_what_the_next_needs(tmp_path: Path) -> None:
    site = Site(tmp_path / "memory.json")
    for number, peak in ((1, 10), (2, 20), (3, 15)):
        site.run(number, 0, 1, duration_s=120, used_gib=[5, 5, 5, peak])
    assert site.state.gpu_memory.need_bytes(ANN, "train-99") == 24 * GIB


@pytest.mark.parametrize(
    ("duration_s", "used_gib"),
    [
        pytest.param(60, [10], id="short"),
        pytest.param(240, [10, 10, None], id="the probe does not say it"),
    ],
)
def test_a_run_of_which_little_is_known_teaches_nothing(
    tmp_path: Path, duration_s: int, used_gib: list[int | None]
) -> None:
    site = Site(tmp_path / "memory.json")
    for number in range(1, 5):
        site.run(number, 0, duration_s=duration_s, used_gib=used_gib)
    assert site.state.gpu_memory.run_count == 0


def test_a_run_that_shared_its_gpu_teaches_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path / "memory.json")
    engine = site.state.engine
    engine.cluster.seats = Seats()
    partner, at_s = JobId("77"), site.clock.at_s
    spec = replace(job(partner, shape(1)), name="partner", binding=True)
    engine.step(JobQueued(at_s=at_s, job=spec))
    second = NodeShare(NodeName("a"), (0,), seat=1)
    engine.step(JobStarted(at_s=at_s, job_id=partner, shares=(second,)))
    for number in range(1, 4):
        site.run(number, 0, duration_s=120, used_gib=[10])
    assert site.state.gpu_memory.run_count == 0
    for number in range(4, 7):
        site.run(number, 1, duration_s=120, used_gib=[10])
    assert site.state.gpu_memory.run_count == 3


def test_where_no_job_may_share_nothing_is_learned(tmp_path: Path) -> None:
    site = Site(tmp_path / "memory.json", enabled=False)
    for number in range(1, 5):
        site.run(number, 0, duration_s=120, used_gib=[10])
    assert site.state.gpu_memory.run_count == 0


def test_a_job_that_uses_more_than_it_stated_is_reported_when_that_grows(tmp_path: Path) -> None:
    site = Site(tmp_path / "memory.json", shares=True)
    site.run(1, 0, duration_s=240, used_gib=[*[10] * 5, *[20] * 9, *[19] * 3, 25])
    assert site.seen_gib == [20, 25]
    site.run(2, 0, duration_s=240, used_gib=[10, 12])
    assert site.seen_gib == [20, 25]
    # A poll without a report teaches nothing of what the next run needs; what is seen still counts.
    site.run(3, 0, duration_s=240, used_gib=[*[None] * 9, *[30] * 12])
    assert site.seen_gib == [20, 25, 30]


def test_it_is_kept_across_restarts_and_a_damaged_file_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    site = Site(path)
    for number in range(1, 4):
        site.run(number, 0, duration_s=120, used_gib=[10])
    site.meter.store()
    assert Site(path).state.gpu_memory.need_bytes(ANN, "train-9") == 12 * GIB
    path.write_text("{")
    assert Site(path).state.gpu_memory.need_bytes(ANN, "train-9") == 0
