"""The newest report of each node: which stream speaks for it, and which events its reports give."""

from dataclasses import dataclass, field

import pytest
from tests.daemon.rpc.probes import floats, hello, sample
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.events import Event, GpuHealthChanged, LoadsSeen, TopologySeen
from roost_engine.domain.model import NodeName
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.telemetry.board import NodeReport, ProbeBoard
from roostd.telemetry.claim import KNOWN_GPUS_S, Claim
from roostd.telemetry.probe_messages import read_hello

N1 = NodeName("n1")


@dataclass
class Site:
    """A board, its clock and what it told."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(0.0))
    told: list[Event] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.board = ProbeBoard(self.clock.now_s, self.told.append)
        list(self.board.introduce(N1))

    def greet(self, stream: str = "s", message: pb.Hello | None = None) -> NodeReport:
        said = read_hello(message or hello("n1"))
        return self.board.apply_hello(said, stream, Claim(gpu_uuids=frozenset(said.gpu_uuids)))

    def kinds(self) -> list[type[Event]]:
        """The types of the events told since the last call."""
        kinds = [type(event) for event in self.told]
        self.told.clear()
        return kinds


@pytest.fixture
def site() -> Site:
    return Site()


def broken_sample(gpu_index: int) -> pb.Sample:
    """A sample that reports a GPU, by its NVML index, fallen off the bus."""
    message = sample()
    message.xid_events.add(gpu_index=gpu_index, code=79)
    return message


def test_links_are_told_once_and_again_only_when_they_change(site: Site) -> None:
    site.greet()
    assert site.kinds() == [TopologySeen]
    site.greet("later")
    assert site.kinds() == []
    site.greet("later still", hello("n1", lanes={(0, 1): 4}))
    assert site.kinds() == [TopologySeen]


def test_a_probe_without_gpus_takes_nothing_back(site: Site) -> None:
    site.greet()
    site.kinds()
    report = site.greet("no driver", hello("n1", gpu_count=0))
    site.board.apply_sample(report, sample(gpu_count=0), is_checked=True)
    assert site.kinds() == []
    assert list(site.board.take_fresh()) == []


def test_a_node_is_fresh_once_with_its_newest_sample(site: Site) -> None:
    report = site.greet()
    site.board.apply_sample(report, sample(1, sm_frac=floats(0.1, 0.1, 0.1, 0.1)), is_checked=True)
    site.board.apply_sample(report, sample(2, sm_frac=floats(0.2, 0.3, 0.4, None)), is_checked=True)

    assert [fresh.sample.sequence for fresh in site.board.take_fresh() if fresh.sample] == [2]
    assert list(site.board.take_fresh()) == []


def test_a_hello_forgets_the_load_of_the_session_before(site: Site) -> None:
    site.board.apply_sample(site.greet(), sample(), is_checked=True)
    site.greet("restarted")
    assert list(site.board.take_fresh()) == []


def test_a_fresh_engine_is_told_links_and_load_of_a_node_that_slurm_names(site: Site) -> None:
    site.board.apply_sample(site.greet(), sample(), is_checked=True)
    assert [type(event) for event in site.board.introduce(N1)] == [TopologySeen, LoadsSeen]
    assert list(site.board.introduce(NodeName("n2"))) == []


def test_a_fault_is_told_once_by_gres_index_and_stays_though_later_samples_are_sound(
    site: Site,
) -> None:
    report = site.greet(message=hello("n1", minors=[2, 3, 0, 1]))
    site.kinds()

    site.board.apply_sample(report, broken_sample(0), is_checked=True)
    site.board.apply_sample(report, broken_sample(0), is_checked=True)
    site.board.apply_sample(report, sample(), is_checked=True)

    assert site.told == [GpuHealthChanged(at_s=0.0, name=N1, gpu_index=2, fault="XID 79")]
    assert report.faults == {2: "XID 79"}


def test_a_fault_outlives_a_new_stream_of_its_session_and_ends_with_another_session(
    site: Site,
) -> None:
    site.board.apply_sample(site.greet("first"), broken_sample(1), is_checked=True)
    site.told.clear()

    assert site.greet("reconnected").faults == {1: "XID 79"}
    assert site.told == []
    no_driver = hello("n1", gpu_count=0, session="s2")
    assert site.greet("no driver", no_driver).faults == {1: "XID 79"}
    assert site.greet("restarted", hello("n1", session="s3")).faults == {}

    healed = GpuHealthChanged(at_s=0.0, name=N1, gpu_index=1, fault="")
    assert [event for event in site.told if isinstance(event, GpuHealthChanged)] == [healed]


def test_only_the_stream_that_greeted_last_ends_the_report(site: Site) -> None:
    old = site.greet("old")
    new = site.greet("new")
    assert old.stream is None
    site.board.leave(N1, "old")
    assert new.stream == "new"
    site.board.leave(N1, "new")
    assert new.stream is None
    assert site.board.report(N1) is new  # what it said last is still shown


def test_a_node_that_slurm_does_not_name_is_forgotten_with_its_stream(site: Site) -> None:
    site.greet("s", hello("made-up"))
    site.board.leave(NodeName("made-up"), "s")
    assert site.board.report(NodeName("made-up")) is None


def test_a_node_that_slurm_drops_is_forgotten_when_its_probe_is_away_too(site: Site) -> None:
    site.greet("s")
    site.board.forget(N1)
    assert site.board.report(N1) is not None
    site.board.leave(N1, "s")
    assert site.board.report(N1) is None
    assert not site.board.knows_nodes()


def test_only_nodes_of_slurm_that_reported_lately_are_counted(site: Site) -> None:
    site.greet("a")
    site.greet("b", hello("made-up"))
    assert site.board.count_since(0.0) == 1
    assert site.board.count_since(0.1) == 0


def test_a_probe_with_other_gpus_is_not_known_until_the_node_was_silent_for_an_hour(
    site: Site,
) -> None:
    assert site.greet("first").is_known
    stranger = hello("n1")
    for gpu in stranger.gpus:
        gpu.uuid = f"GPU-stranger-{gpu.index}"

    site.clock.at_s = KNOWN_GPUS_S
    assert not site.greet("second", stranger).is_known
    site.clock.at_s = 2 * KNOWN_GPUS_S + 1.0
    assert site.greet("third", stranger).is_known


def test_a_second_stream_waits_until_the_first_is_silent_or_gone(site: Site) -> None:
    uuids = frozenset(read_hello(hello("n1")).gpu_uuids)
    claim = Claim(gpu_uuids=uuids)
    assert site.board.may_report(claim, N1, "second", 3.0)
    site.greet("first")

    assert site.board.may_report(claim, N1, "first", 3.0)
    site.clock.at_s = 3.0
    assert not site.board.may_report(claim, N1, "second", 3.0)
    site.clock.at_s = 3.1
    assert site.board.may_report(claim, N1, "second", 3.0)
    site.clock.at_s = 0.0
    site.board.leave(N1, "first")
    assert site.board.may_report(claim, N1, "second", 3.0)


def with_mig(*indices: int, session: str = "s1") -> pb.Hello:
    """A Hello in which these GPUs, by NVML index, are in MIG mode; NVML's order is not Slurm's."""
    message = hello("n1", minors=[2, 3, 0, 1], session=session)
    for gpu in message.gpus:
        gpu.mig_enabled = gpu.index in indices
    return message


def health(site: Site) -> list[tuple[int, str]]:
    """GPU and fault of each change of health since the last call."""
    told = [event for event in site.told if isinstance(event, GpuHealthChanged)]
    site.told.clear()
    return [(event.gpu_index, event.fault) for event in told]


def test_a_gpu_that_is_switched_to_mig_gets_no_jobs_until_it_is_switched_back(site: Site) -> None:
    site.greet("a", with_mig())
    assert health(site) == []
    site.greet("b", with_mig(0))
    assert health(site) == [(2, "in MIG mode")]
    site.greet("c", with_mig(0))
    assert health(site) == []  # the same session: it is known
    site.greet("d", with_mig(0, 1, session="s2"))
    assert health(site) == [(2, ""), (2, "in MIG mode"), (3, "in MIG mode")]
    site.greet("e", with_mig(session="s2"))
    assert health(site) == [(2, ""), (3, "")]


def test_mig_does_not_hide_another_fault(site: Site) -> None:
    report = site.greet("a", with_mig())
    site.board.apply_sample(report, broken_sample(0), is_checked=True)
    site.greet("b", with_mig(0))
    site.greet("c", with_mig())
    assert [fault for _, fault in health(site)] == ["XID 79"]


def test_values_that_nobody_has_read_are_checked_when_they_are(site: Site) -> None:
    report = site.greet()
    site.board.apply_sample(report, sample(1, sm_frac=floats(0.1, 0.1, 0.1, 0.1)), is_checked=True)
    bad = sample(2, sm_frac=floats(0.1, float("nan"), 0.1, 0.1))
    site.board.apply_sample(report, bad, is_checked=False)

    assert report.sample is not None
    assert (report.sample.sequence, report.is_suspect) == (1, True)

    site.board.apply_sample(report, sample(3), is_checked=True)
    assert not report.is_suspect
    site.board.apply_sample(report, sample(4), is_checked=False)
    assert report.sample.sequence == 4
