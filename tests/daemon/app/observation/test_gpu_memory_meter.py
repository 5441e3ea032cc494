"""What the meter of GPU memory learns of jobs, and what it leaves out."""

from dataclasses import replace
from pathlib import Path

import pytest
from structlog.testing import capture_logs
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
    TopologySeen,
)
from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.sharing.pairs import Pairs, SharingConfig
from roost_engine.testing.builders import bridges, job, node, shape, share, topology
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
    assert site.state.gpu_memory.change_count == 0


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
    assert site.state.gpu_memory.change_count == 0
    for number in range(4, 7):
        site.run(number, 1, duration_s=120, used_gib=[10])
    assert site.state.gpu_memory.change_count == 3


def test_where_no_job_may_share_nothing_is_learned(tmp_path: Path) -> None:
    site = Site(tmp_path / "memory.json", enabled=False)
    for number in range(1, 5):
        site.run(number, 0, duration_s=120, used_gib=[10])
    assert site.state.gpu_memory.change_count == 0


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


def topology_of_a() -> TopologySeen:
    return replace(topology("a", bridges(4)), gpu_memory_bytes=80 * GIB)


class SharedSite(Site):
    """Two jobs of 30 GiB each share GPU 0 of 80 GiB, as the probe's list of processes says."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, shares=True)
        for number, seat in ((1, 0), (2, 1)):
            job_id = JobId(str(number))
            spec = replace(job(job_id, shape(1), user_id=ANN), name=f"kind{'ab'[seat]}-{number}")
            spec = replace(spec, shares_gpus=True, gpu_memory_bytes=30 * GIB)
            self.state.engine.step(JobQueued(at_s=0.0, job=spec))
            holds = (NodeShare(NodeName("a"), (0,), seat=seat),)
            self.state.engine.step(JobStarted(at_s=0.0, job_id=job_id, shares=holds))

    def see(self, *gib: tuple[int, float], mask: int = 1) -> None:
        """Poll; the probe has listed what these of Slurm's jobs use of GPU 0, of 80 GiB."""
        message = sample(1, 4)
        message.memory_used_bytes.CopyFrom(uints(*[70 * GIB] * 4))
        message.process_mask = mask
        for number, used in gib:
            message.job_memory.add(gpu_index=0, slurm_job_id=number, used_bytes=int(used * GIB))
        self.clock.at_s += 30.0
        self.board.apply_sample(self.report, message, is_checked=True)
        self.meter.poll()

    def end(self, number: int) -> None:
        self.state.engine.step(JobEnded(at_s=self.clock.at_s, job_id=JobId(str(number))))
        self.clock.at_s += 30.0
        self.meter.poll()


def test_jobs_that_share_a_gpu_teach_what_each_of_them_uses(tmp_path: Path) -> None:
    site = SharedSite(tmp_path / "memory.json")
    for _ in range(3):
        site.see((1, 12), (2, 20), (0, 0.5))
    site.end(2)
    assert site.state.gpu_memory.text().count("[") == 1  # of kind b; that of a still runs
    assert str(20 * GIB) in site.state.gpu_memory.text()
    assert site.seen_gib == []


def test_a_job_that_outgrows_its_memory_beside_another_is_reported_and_remembered(
    tmp_path: Path,
) -> None:
    site = SharedSite(tmp_path / "memory.json")
    with capture_logs() as logs:
        site.see((1, 12), (2, 20))
        site.see((1, 12), (2, 55.5))
        site.see((1, 12), (2, 50))
    assert site.seen_gib == [56]
    told = [entry for entry in logs if entry["event"] == "gpu_memory_outgrown"]
    assert [(entry["job_id"], entry["beside"]) for entry in told] == [("2", "1")]
    site.state.engine.step(topology_of_a())
    assert site.state.engine.seating is not None
    overfull = site.state.engine.seating.needs.overfull(JobId("1"))
    assert overfull is not None
    assert (overfull.job, overfull.beside) == ("2", "1")
    assert site.state.gpu_memory.need_bytes(ANN, "kindb-9", 30 * GIB) == 56 * GIB


@pytest.mark.parametrize(
    ("mask", "listed"),
    [
        pytest.param(0, [], id="not listed"),
        pytest.param(1, [(1, 10), (0, 40)], id="much belongs to no job"),
        pytest.param(1, [(1, 10), (7, 40)], id="of a job that does not hold the GPU"),
        pytest.param(1, [(1, 10), (2, 71)], id="more than the GPU has"),
    ],
)
def test_what_a_probe_says_against_slurm_or_itself_teaches_nothing(
    mask: int, listed: list[tuple[int, float]], tmp_path: Path
) -> None:
    site = SharedSite(tmp_path / "memory.json")
    for _ in range(3):
        site.see(*listed, mask=mask)
    site.end(2)
    assert (site.seen_gib, site.state.gpu_memory.change_count) == ([], 0)


def test_a_task_of_an_array_is_known_by_its_own_number(tmp_path: Path) -> None:
    site = SharedSite(tmp_path / "memory.json")
    site.state.job_ids[1_234] = JobId("2")
    site.see((1, 12), (1_234, 40))
    assert site.seen_gib == [40]
