"""What the waste meter counts: held, idle, unknown, split, unreachable and half free GPUs."""

from collections.abc import Sequence
from math import log
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from tests.daemon.rpc.probes import floats, hello, sample
from tests.daemon.rpc.served import ManualClock

from roost_engine.domain.events import (
    Event,
    ForeignMemorySeen,
    JobEnded,
    JobQueued,
    JobStarted,
    NodeLost,
    NodeSeen,
    TopologySeen,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import job, node, shape, share
from roostd.app.observation.waste_meter import WasteMeter
from roostd.config.config import Config
from roostd.ops.metrics import Metrics
from roostd.state import DaemonState, Owner
from roostd.telemetry.board import ProbeBoard
from roostd.telemetry.probe_messages import read_hello
from roostd.telemetry.speed_source import Expected
from roostd.telemetry.waste import KINDS, Seconds

TRAINER = JobId("1")
ANN, BOB = 1001, 1002
IDLE = (0.0, 0.0, 0.0, 0.0)


class Site:
    """Node a with two linked pairs, and a meter that is polled each second."""

    def __init__(self, path: Path, cpu_count: int = 64) -> None:
        self.clock = ManualClock(0.0)
        self.board = ProbeBoard(self.clock.now_s, lambda event: None)
        engine = Engine(EngineConfig(), Policies())
        self.state = DaemonState(
            version="1", clock=self.clock, config=Config(), engine=engine, board=self.board
        )
        self.metrics = Metrics(CollectorRegistry())
        self.told: list[Event] = []
        self.meter = WasteMeter(self.state, path, self.metrics.wasted, self.tell)
        engine.step(NodeSeen(at_s=0.0, node=node("a", gpu_count=4, cpu_count=cpu_count)))
        said = read_hello(hello("a", lanes={(0, 1): 4, (2, 3): 4}))
        self.report = self.board.apply_hello(said, self)
        engine.step(
            TopologySeen(at_s=0.0, name=NodeName("a"), links=said.links, gpu_uuids=said.gpu_uuids)
        )

    def tell(self, event: Event) -> None:
        self.told.append(event)
        self.state.engine.step(event)

    def run(self, *gpus: int, job_id: JobId = TRAINER, user_id: int = ANN, on: str = "a") -> None:
        at_s, engine = self.clock.at_s, self.state.engine
        engine.step(JobQueued(at_s=at_s, job=job(job_id, shape(len(gpus)))))
        engine.step(JobStarted(at_s=at_s, job_id=job_id, shares=(share(on, *gpus),)))
        self.state.owners[job_id] = Owner(user_id, "main")

    def pass_time(
        self,
        duration_s: int,
        *sm_fracs: float | None,
        memory: Sequence[int] = (),
        job_memory: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Send a sample a second, if there are fractions, and poll.

        Args:
            duration_s: so many samples.
            sm_fracs: of the GPUs; none: the probe is silent.
            memory: GiB in use on each GPU.
            job_memory: GPU and job of processes that use 9 GiB each.
        """
        for _ in range(duration_s):
            self.clock.at_s += 1.0
            if sm_fracs:
                said = sample(1, 4, sm_frac=floats(*sm_fracs))
                used_bytes = [gib << 30 for gib in memory]
                said.memory_used_bytes.present_mask = (1 << len(used_bytes)) - 1
                said.memory_used_bytes.values.extend(used_bytes)
                for gpu, number in job_memory:
                    said.job_memory.add(gpu_index=gpu, slurm_job_id=number, used_bytes=9 << 30)
                self.board.apply_sample(self.report, said, is_checked=True)
            self.meter.poll()

    def sums(self, user_id: int | None) -> Seconds:
        return next(
            (sums for _, user, sums in self.state.waste.rows() if user == user_id), Seconds()
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "waste.json")


def test_held_gpus_belong_to_the_user(site: Site) -> None:
    site.run(0, 1)
    site.pass_time(600, 0.9, 0.9, 0.0, 0.0)
    found = site.sums(ANN)
    assert found.held == pytest.approx(2 * 600, abs=2 * 120)
    assert (found.idle, found.split, found.unknown) == (0.0, 0.0, 0.0)


def test_idle_counts_after_five_minutes_and_from_the_first(site: Site) -> None:
    site.run(0, 1)
    site.pass_time(280, 0.9, 0.0, 0.0, 0.0)
    assert site.sums(ANN).idle == 0.0
    site.pass_time(620, 0.9, 0.0, 0.0, 0.0)
    assert site.sums(ANN).idle == pytest.approx(900, abs=120)


def test_one_busy_look_ends_an_idle_time(site: Site) -> None:
    site.run(0, 1)
    for _ in range(4):
        site.pass_time(240, 0.9, 0.01, None, None)
        site.pass_time(120, 0.9, 0.4, None, None)
    assert site.sums(ANN).idle == 0.0


def test_without_telemetry_no_job_is_blamed(site: Site) -> None:
    site.run(0, 1)
    site.pass_time(600)
    found = site.sums(ANN)
    assert found.idle == 0.0
    assert found.unknown == pytest.approx(found.held)
    site.pass_time(300, 0.5, None, None, None)
    assert site.sums(ANN).unknown < site.sums(ANN).held


def test_a_silent_probe_is_no_telemetry(site: Site) -> None:
    site.run(0, 1)
    site.pass_time(1, 0.0, 0.0, 0.0, 0.0)
    site.pass_time(900)
    assert site.sums(ANN).idle == 0.0


def test_a_job_of_two_on_two_pairs_splits_both(site: Site) -> None:
    site.run(0, 2)
    site.pass_time(600, 0.9, 0.9, 0.9, 0.9)
    assert site.sums(ANN).split == site.sums(ANN).held > 0
    assert site.sums(None).half_free == pytest.approx(2 * 600, abs=2 * 120)


def test_a_job_of_one_splits_nothing_but_leaves_a_half(site: Site) -> None:
    site.run(0)
    site.pass_time(600, 0.9, 0.9, 0.9, 0.9)
    assert site.sums(ANN).split == 0.0
    assert site.sums(None).half_free == pytest.approx(600, abs=120)


def test_free_gpus_beyond_the_free_cpus_are_unreachable(tmp_path: Path) -> None:
    site = Site(tmp_path / "waste.json", cpu_count=2)
    site.run(0)
    site.pass_time(600, 0.9, 0.9, 0.9, 0.9)
    cpu_free = int(site.state.engine.cluster.cpu_free[0])
    assert site.sums(None).unreachable == pytest.approx((3 - cpu_free) * 600, abs=3 * 120)
    assert cpu_free < 3


def test_what_neighbours_cost_is_a_share_of_the_gpus_time(site: Site) -> None:
    site.run(0, 1)
    record, progress = site.state.engine.record(TRAINER), site.state.progress
    expected = Expected(log(2.0), 0.3)
    for step_count, at_s in ((0, 1.0), (100, 31.0)):
        progress.report(record, record.spec.user_id, step_count, at_s, lambda: expected)
    site.pass_time(600, 0.9, 0.9, 0.9, 0.9)
    assert site.sums(ANN).neighbours == pytest.approx(site.sums(ANN).held / 2) != 0.0


def test_memory_that_no_job_holds_counts_after_five_minutes_and_from_the_first(site: Site) -> None:
    site.run(0, 1)
    site.pass_time(280, *IDLE, memory=(70, 70, 0, 5))
    assert (site.state.foreign, site.sums(None).foreign) == ({}, 0.0)
    site.pass_time(620, *IDLE, memory=(70, 70, 0, 5))
    assert site.sums(None).foreign == pytest.approx(900, abs=120)
    (found,) = site.state.foreign.items()
    assert found[0] == (NodeName("a"), 3)
    assert (found[1].memory.used_bytes, found[1].held_by) == (5 << 30, None)
    assert found[1].since_s <= 120.0
    assert site.report.has_foreign_memory


def avoided(site: Site) -> set[int]:
    """Return the GPUs of the node that the engine gives out last."""
    return {gpu for _, gpu in site.state.engine.cluster.foreign.used_bytes}


def test_the_engine_is_told_within_two_minutes_and_once(site: Site) -> None:
    site.pass_time(44, *IDLE, memory=(0, 0, 0, 40))
    assert avoided(site) == set()
    site.pass_time(80, *IDLE, memory=(0, 0, 0, 40))
    assert avoided(site) == {3}
    (event,) = site.told
    assert event == ForeignMemorySeen(
        at_s=event.at_s, name=NodeName("a"), gpu_index=3, used_bytes=40 << 30
    )
    site.pass_time(61, *IDLE, memory=(0, 0, 0, 0))
    assert avoided(site) == set()
    assert len(site.told) == 2


def test_up_to_the_limit_the_engine_is_not_told(tmp_path: Path) -> None:
    for limit_frac, told in ((0.5, {3}), (1.0, set())):
        site = Site(tmp_path / "waste.json")
        site.state.config = Config.model_validate(
            {"placement": {"foreign_memory_frac": limit_frac}}
        )
        site.pass_time(400, *IDLE, memory=(0, 0, 40, 79))  # of 80 GiB each
        assert avoided(site) == told


def test_a_gpu_that_a_job_got_all_the_same_is_avoided_again_after_it(site: Site) -> None:
    site.pass_time(200, *IDLE, memory=(0, 0, 0, 40))
    site.run(3)
    site.pass_time(200, *IDLE, memory=(0, 0, 0, 70))
    assert avoided(site) == {3}
    site.state.engine.step(JobEnded(at_s=site.clock.at_s, job_id=TRAINER))
    site.pass_time(61, *IDLE, memory=(0, 0, 0, 40))
    assert (avoided(site), len(site.told)) == ({3}, 1)


def test_a_fresh_engine_is_told_again(site: Site) -> None:
    site.pass_time(200, *IDLE, memory=(0, 0, 0, 40))
    site.state.engine = Engine(EngineConfig(), Policies())
    site.state.engine.step(NodeSeen(at_s=site.clock.at_s, node=node("a", gpu_count=4)))
    assert avoided(site) == set()
    site.pass_time(61, *IDLE, memory=(0, 0, 0, 40))
    assert avoided(site) == {3}


@pytest.mark.parametrize("is_drained", [True, False])
def test_of_a_silent_probe_or_a_drained_node_nothing_is_known(site: Site, is_drained: bool) -> None:
    site.pass_time(200, *IDLE, memory=(0, 0, 0, 40))
    assert avoided(site) == {3}
    if is_drained:
        drained = node("a", gpu_count=4, usable=False)
        site.state.engine.step(NodeSeen(at_s=site.clock.at_s, node=drained))
        site.pass_time(121, *IDLE, memory=(0, 0, 0, 40))
    else:
        site.pass_time(121)
    assert avoided(site) == set()


def test_memory_that_goes_with_its_job_is_no_finding(site: Site) -> None:
    site.run(0, 1)
    for job_id in map(JobId, "2345"):  # each leaves its memory for some minutes
        site.run(2, 3, job_id=job_id, user_id=BOB)
        site.pass_time(240, *IDLE, memory=(70, 70, 50, 50))
        site.state.engine.step(JobEnded(at_s=site.clock.at_s, job_id=job_id))
        site.pass_time(240, *IDLE, memory=(70, 70, 50, 50))
    assert (site.state.foreign, site.sums(None).foreign) == ({}, 0.0)


def test_on_a_gpu_with_shards_or_of_a_reservation_no_memory_is_foreign(site: Site) -> None:
    """Its holder is no job of Slurm: nothing says whose processes belong there."""
    site.run(1)
    for gpu, holder in ((0, "shards a:0"), (2, "reservation r")):
        share_of = (share("a", gpu),)
        site.state.engine.step(JobStarted(at_s=0.0, job_id=JobId(holder), shares=share_of))
    processes = [(0, 7), (0, 8), (1, 1), (1, 7), (2, 9)]
    site.pass_time(900, *IDLE, memory=(18, 18, 9, 0), job_memory=processes)
    assert site.state.foreign.keys() == {(NodeName("a"), 1)}


def test_a_gpu_that_is_given_out_or_cleaned_is_not_listed_any_more(site: Site) -> None:
    site.pass_time(600, *IDLE, memory=(9, 9, 0, 0))
    assert len(site.state.foreign) == 2
    site.run(0)
    site.pass_time(61, *IDLE, memory=(70, 0, 0, 0))
    assert site.state.foreign == {}
    site.pass_time(61, *IDLE, memory=(70, 0, 0, 0))
    assert not site.report.has_foreign_memory


@pytest.mark.parametrize("is_gone", [False, True])
def test_nothing_is_said_of_a_node_without_telemetry_or_that_slurm_does_not_use(
    site: Site, is_gone: bool
) -> None:
    site.pass_time(600, *IDLE, memory=(9, 9, 0, 0))
    if is_gone:
        site.state.engine.step(NodeLost(at_s=site.clock.at_s, name=NodeName("a")))
        site.pass_time(121, *IDLE, memory=(9, 9, 0, 0))
    else:
        site.pass_time(121)
    assert site.state.foreign == {}


def test_a_gpu_that_its_node_has_no_more_is_not_listed(site: Site) -> None:
    site.pass_time(600, *IDLE, memory=(9, 0, 0, 9))
    assert len(site.state.foreign) == 2
    smaller = NodeSeen(at_s=site.clock.at_s, node=node("a", gpu_count=2))
    site.state.engine.step(smaller)
    site.pass_time(121, *IDLE, memory=(9, 0, 0, 9))
    assert list(site.state.foreign) == [(NodeName("a"), 0)]


def test_an_administrator_may_test_the_gpus_of_a_drained_node(site: Site) -> None:
    site.state.engine.step(NodeSeen(at_s=0.0, node=node("a", gpu_count=4, usable=False)))
    site.pass_time(900, *IDLE, memory=(70, 70, 70, 70))
    assert (site.state.foreign, site.sums(None).foreign) == ({}, 0.0)


def test_two_users_are_counted_apart_and_an_ended_job_no_more(site: Site) -> None:
    site.run(0, 1)
    site.run(2, 3, job_id=JobId("2"), user_id=BOB)
    site.pass_time(300, 0.9, 0.9, 0.9, 0.9)
    site.state.engine.step(JobEnded(at_s=site.clock.at_s, job_id=TRAINER))
    held = site.sums(ANN).held
    site.pass_time(300, 0.9, 0.9, 0.9, 0.9)
    assert site.sums(ANN).held == held
    assert site.sums(BOB).held > held


def test_a_time_that_the_daemon_has_not_seen_does_not_count(site: Site) -> None:
    site.run(0, 1)
    site.pass_time(120, 0.9, 0.9, 0.9, 0.9)
    site.clock.at_s += 36_000.0
    site.pass_time(120, 0.9, 0.9, 0.9, 0.9)
    assert site.sums(ANN).held < 2 * (240 + 180 + 1)


def test_a_reload_in_the_middle_of_a_round_stops_nothing(site: Site) -> None:
    """The new engine has its nodes in another order, and not all of them."""
    names = [f"n{number}" for number in range(120)]  # more than a poll looks at
    for name in names:
        site.state.engine.step(NodeSeen(at_s=0.0, node=node(name, gpu_count=4)))
    site.run(0, 1)
    site.pass_time(60)
    site.pass_time(1)
    held = site.sums(ANN).held

    site.state.engine = Engine(EngineConfig(), Policies())
    for name in [*reversed(names[:60]), "a"]:
        site.state.engine.step(NodeSeen(at_s=61.0, node=node(name, gpu_count=4)))
    site.run(0, 1)
    site.run(0, 1, 2, 3, job_id=JobId("2"), user_id=BOB, on="n7")
    site.pass_time(120)
    site.state.engine.step(JobEnded(at_s=site.clock.at_s, job_id=TRAINER))
    site.pass_time(120)
    slack = 60 + 1  # seconds: each job is looked at once a round
    assert site.sums(ANN).held - held == pytest.approx(2 * 120, abs=2 * slack)
    assert site.sums(BOB).held == pytest.approx(4 * 240, abs=4 * slack)


def test_the_metric_has_kinds_and_no_users(site: Site) -> None:
    site.run(0, 1)
    site.pass_time(600, 0.9, 0.9, 0.9, 0.9)
    (family,) = site.metrics.wasted.collect()
    labels = [each.labels for each in family.samples if each.name.endswith("_total")]
    assert {"kind": "held"} in labels
    assert all(set(each) == {"kind"} and each["kind"] in KINDS for each in labels)


def test_sums_survive_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "waste.json"
    before = Site(path)
    before.run(0, 1)
    before.pass_time(400, 0.9, 0.9, 0.9, 0.9)
    before.meter.store()
    again = Site(path)
    assert again.sums(ANN) == before.sums(ANN)
    assert again.state.waste.fault == ""


def test_a_damaged_file_is_named_and_counting_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "waste.json"
    path.write_bytes(b"\xff\x00")
    site = Site(path)
    assert str(path) in site.state.waste.fault
    site.meter.store()
    assert site.state.waste.fault == ""


def test_a_full_disk_is_told_and_stops_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path / "gone" / "waste.json")
    site.run(0, 1)
    site.pass_time(400, 0.9, 0.9, 0.9, 0.9)
    assert "No such file" in site.state.waste.fault
    assert site.sums(ANN).held > 0
