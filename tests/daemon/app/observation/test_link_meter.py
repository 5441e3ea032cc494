"""When LinkMeter reports how busy a running job's links are, and the values."""

from itertools import pairwise

import pytest
from tests.daemon.rpc.probes import floats, hello, sample
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.events import (
    Event,
    JobQueued,
    JobsStopped,
    JobStarted,
    LinksSeen,
    NodeSeen,
)
from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.delay import DelayGate
from roost_engine.testing.builders import delay_policies, job, node, shape, share
from roost_formats.journal.codec import decode, encode
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.app.observation.link_meter import LinkMeter
from roostd.config.config import Config
from roostd.rpc.messages import explanations
from roostd.state import DaemonState
from roostd.telemetry.board import NodeReport, ProbeBoard
from roostd.telemetry.probe_messages import read_hello

TRAINER = JobId("1")
NVLINK, PCIE = "nvlink_tx_bytes_per_s", "pcie_rx_bytes_per_s"


class Site:
    """Nodes a and b of four GPUs in one rack, two and two of which are linked by four lanes."""

    def __init__(self) -> None:
        self.clock = ManualClock(0.0)
        self.reported: list[LinksSeen] = []
        self.board = ProbeBoard(self.clock.now_s, lambda event: None)
        engine = Engine(EngineConfig(), delay_policies(DelayGate()))
        self.state = DaemonState(
            version="1", clock=self.clock, config=Config(), engine=engine, board=self.board
        )
        self.meter = LinkMeter(self.state, self._take)
        self.reports = dict[str, NodeReport]()
        for name in "ab":
            engine.step(NodeSeen(at_s=0.0, node=node(name, gpu_count=4, rack="r")))
            said = hello(name, lanes={(0, 1): 4, (2, 3): 4})
            said.nics.add(
                name="mlx5_0", bytes_per_s=25e9, gpu_levels=[pb.ANCESTOR_LEVEL_SYSTEM] * 4
            )
            self.reports[name] = self.board.apply_hello(read_hello(said), self)

    def _take(self, event: Event) -> None:
        assert isinstance(event, LinksSeen)
        assert decode(encode(event), LinksSeen) == event, "a journal keeps it"
        self.reported.append(event)
        self.state.engine.step(event)

    def run(self, *gpus_of: tuple[str, tuple[int, ...]]) -> None:
        shapes = (shape(4), shape(2, 2))
        self.state.engine.step(JobQueued(at_s=self.clock.at_s, job=job(TRAINER, *shapes)))
        shares = tuple(share(name, *gpus) for name, gpus in gpus_of)
        started = JobStarted(at_s=self.clock.at_s, job_id=TRAINER, shares=shares)
        self.state.engine.step(started)

    def pass_time(self, duration_s: int, **rates: float | None) -> None:
        """Send a sample of each node every second, the same for all GPUs, and poll the meter."""
        for _ in range(duration_s):
            self.clock.at_s += 1.0
            for report in self.reports.values():
                columns = {name: floats(*[rate] * 4) for name, rate in rates.items()}
                self.board.apply_sample(report, sample(1, 4, **columns), is_checked=True)
            self.meter.poll()


@pytest.fixture
def site() -> Site:
    return Site()


def test_tells_a_minute_after_the_start(site: Site) -> None:
    site.run(("a", (0, 1, 2, 3)))
    site.pass_time(60, **{NVLINK: 50e9, PCIE: 6.3e9})
    assert site.reported == []
    site.pass_time(1, **{NVLINK: 50e9, PCIE: 6.3e9})
    (reported,) = site.reported
    # Four lanes move 200 GB/s both ways, a slot 63.
    assert (reported.at_s, reported.job_id) == (61.0, TRAINER)
    assert reported.nvlink_frac == pytest.approx(0.25)
    assert reported.pcie_frac == pytest.approx(0.1)
    assert site.state.engine.record(TRAINER).pcie_frac == reported.pcie_frac


def test_tells_of_the_nearest_network_card_too(site: Site) -> None:
    site.run(("a", (0, 1)), ("b", (0, 1)))
    site.pass_time(61, nic_rx_bytes_per_s=5e9, nic_tx_bytes_per_s=1e9)
    (reported,) = site.reported
    assert (reported.nvlink_frac, reported.pcie_frac) == (None, None)
    assert reported.nic_frac == pytest.approx(0.2)
    assert site.state.engine.record(TRAINER).nic_frac == reported.nic_frac


def test_tells_again_once_a_minute_and_only_what_moved(site: Site) -> None:
    site.run(("a", (0, 1, 2, 3)))
    site.pass_time(61, **{PCIE: 31.5e9})
    site.pass_time(600, **{PCIE: 31.5e9})
    assert len(site.reported) == 1
    site.pass_time(600, **{PCIE: 0.0})
    first, *later = site.reported
    assert first.pcie_frac == pytest.approx(0.5)
    gaps_s = [b.at_s - a.at_s for a, b in pairwise(later)]
    assert gaps_s
    assert min(gaps_s) >= 60.0
    # 660 samples of a half and 600 of nothing; the last report is at most a twentieth off
    assert later[-1].pcie_frac == pytest.approx(0.5 * 660 / 1260, rel=0.06)


def test_reports_nothing_that_no_probe_reported(site: Site) -> None:
    site.run(("a", (0, 1, 2, 3)))
    site.pass_time(300, **{NVLINK: None, PCIE: None})
    assert site.reported == []
    site.pass_time(60, **{PCIE: 6.3e9})
    assert site.reported[-1].nvlink_frac is None


def test_a_silent_probe_moves_nothing(site: Site) -> None:
    site.run(("a", (0, 1)), ("b", (0, 1)))
    del site.reports["b"]
    site.pass_time(300, **{PCIE: 6.3e9})
    assert site.reported == []


def test_a_job_that_runs_again_gets_new_means(site: Site) -> None:
    site.run(("a", (0, 1, 2, 3)))
    site.pass_time(61, **{PCIE: 63e9})
    site.state.engine.step(JobsStopped(at_s=site.clock.at_s, job_ids=(TRAINER,)))
    site.pass_time(100, **{PCIE: 63e9})
    site.run(("b", (0, 1, 2, 3)))
    site.pass_time(61, **{PCIE: 6.3e9})
    assert [reported.pcie_frac for reported in site.reported] == [
        pytest.approx(1.0),
        pytest.approx(0.1),
    ]


def test_a_round_goes_over_all_jobs_however_many(site: Site) -> None:
    site.run(("a", (0, 1)))
    for number in range(2, 65):  # no more GPUs are there: what counts is that each is looked at
        other = JobId(str(number))
        site.state.engine.step(JobQueued(at_s=0.0, job=job(other, gpus=2)))
        site.state.engine.step(JobStarted(at_s=0.0, job_id=other, shares=(share("b", 0, 1),)))
    site.pass_time(130, **{PCIE: 6.3e9})
    assert {reported.job_id for reported in site.reported} == {
        JobId(str(number)) for number in range(1, 65)
    }


def test_explain_tells_what_a_running_job_achieves(site: Site) -> None:
    for name in "ab":  # so that it fits on neither node alone
        other = JobStarted(at_s=0.0, job_id=JobId(name), shares=(share(name, 2, 3),))
        site.state.engine.step(other)
    site.run(("a", (0, 1)), ("b", (0, 1)))
    site.pass_time(61, **{PCIE: 0.8 * 63e9})
    seen = explanations.explanation(site.state, TRAINER).achieved
    assert seen.pcie_frac == pytest.approx(0.8)
    assert not seen.HasField("nvlink_frac")
    # In a rack such a job is believed to reach 0.7, as two runs would tell; this one shows
    # 1 - 0.8 · (1 - 1/4) = 0.4.
    assert seen.speed_frac == pytest.approx((0.4 + 2 * 0.7) / 3)
    assert seen.source == "link counters of this run"
    assert seen.confidence_frac == pytest.approx(0.3)


def test_explain_tells_of_a_job_on_one_node_that_it_is_as_close_as_it_can_be(site: Site) -> None:
    site.run(("a", (0, 1, 2, 3)))
    seen = explanations.explanation(site.state, TRAINER).achieved
    assert (seen.speed_frac, seen.source) == (1.0, "its place: as close together as it could be")
    assert not seen.HasField("pcie_frac")
    site.state.engine.step(JobsStopped(at_s=site.clock.at_s, job_ids=(TRAINER,)))
    assert not explanations.explanation(site.state, TRAINER).HasField("achieved")
