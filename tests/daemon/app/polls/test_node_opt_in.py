"""Accounts, QoS and nodes that roostd steers; all else is Slurm's, and waits for nothing."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.daemon.running import Running, config, running

from roost_engine.domain.actions import Wait
from roost_engine.domain.errors import ConfigError
from roost_engine.domain.events import JobEnded, JobQueued, JobStarted, NodeSeen, Tick
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import Engine, EngineConfig
from roost_engine.job_record import JobRecord
from roost_engine.plugins.plugins import Policies
from roost_engine.testing import builders
from roost_proto.v1 import operator_pb2 as pb
from roost_slurm.text.partitions import Partition
from roost_slurm.text.squeue import SlurmJobState
from roostd.app.polls.node_opt_in import NodeOptIn
from roostd.config.config import Config
from roostd.config.loaded_config import load_config
from roostd.slurm.port import SlurmNode
from roostd.slurm.rules.site_rules import SiteRules
from roostd.state import DaemonState
from roostd.telemetry.board import ProbeBoard
from roostd.testing.busy_state import StillClock
from roostd.testing.slurm_stand_in import SlurmStandIn
from roostd.testing.slurm_stand_in_submission import Submission

CANARY = {"main": {"mode": "enforce", "nodes": "n[1-2]"}}


@pytest.fixture
def slurm() -> SlurmStandIn:
    return SlurmStandIn([builders.node(f"n{number}") for number in range(1, 5)])


async def explained(daemon: Running, job_id: JobId) -> pb.Job:
    async with daemon.operator() as operator:
        return await operator.GetJob(pb.GetJobRequest(job_id=job_id))


def of(key: str, name: str) -> Submission:
    request: Submission = {"gpus_per_node": 1}
    request["account" if key == "accounts" else "qos"] = name
    return request


@pytest.mark.parametrize("key", ["accounts", "qos"])
async def test_only_jobs_of_the_list_are_placed_and_the_others_start_at_once(
    slurm: SlurmStandIn, tmp_path: Path, key: str
) -> None:
    async with running(slurm, config(tmp_path, **{key: ["vision"]})) as daemon:
        (mine,) = slurm.submit(**of(key, "vision"))
        (other,) = slurm.submit(**of(key, "speech"))
        (nobody,) = slurm.submit(gpus_per_node=2)
        request = of(key, "speech")
        request["array"] = range(5)
        array = slurm.submit(**request)

        await daemon.until_running(mine)
        left = (other, nobody, *array)
        await daemon.until(
            lambda: all(slurm.state(one) is SlurmJobState.RUNNING for one in left), "all start"
        )

        assert await daemon.allocated(mine) == daemon.planned(mine) != {}
        assert daemon.places() == {mine}
        assert "of roostd.yaml: left to Slurm" in (await explained(daemon, other)).reason
        assert not set(left) & set(daemon.daemon.parts.watch.leased())


async def test_a_reload_changes_which_jobs_are_in(slurm: SlurmStandIn, tmp_path: Path) -> None:
    before, after = config(tmp_path), config(tmp_path, accounts=["vision"])
    async with running(slurm, before, lambda: after) as daemon:
        (first,) = slurm.submit(gpus_per_node=8, nodes=(4, 4), account="vision")
        await daemon.until_running(first)
        (waiting,) = slurm.submit(gpus_per_node=2, account="speech")
        await daemon.until(lambda: waiting in daemon.daemon.parts.watch.leased(), "it is leased")

        daemon.daemon.reload()
        await daemon.until(lambda: slurm.lease_left_s(waiting) <= 0, "its lease is ended")
        slurm.end(first)
        assert slurm.state(waiting) is SlurmJobState.RUNNING


async def test_jobs_get_the_listed_nodes_and_slurm_starts_the_rest_elsewhere(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path, partitions=CANARY)) as daemon:
        jobs = [slurm.submit(gpus_per_node=8)[0] for _ in range(4)]
        await daemon.until(
            lambda: all(slurm.state(one) is SlurmJobState.RUNNING for one in jobs), "all start"
        )

        placed = [one for one in jobs if one in daemon.places()]
        assert len(placed) == 2
        nodes = {node for one in placed for node in await daemon.allocated(one)}
        assert nodes == {"n1", "n2"}
        (third, _) = [one for one in jobs if one not in placed]
        assert "does not fit on partitions.main.nodes" in (await explained(daemon, third)).reason


async def test_a_job_that_fits_no_listed_node_waits_in_slurm_and_for_nothing_of_roosts(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path, partitions=CANARY)) as daemon:
        fill = [slurm.submit(gpus_per_node=8)[0] for _ in range(4)]
        await daemon.until(
            lambda: all(slurm.state(one) is SlurmJobState.RUNNING for one in fill), "all start"
        )
        (late,) = slurm.submit(gpus_per_node=2)
        await daemon.until(lambda: slurm.lease_left_s(late) <= 0, "its lease is ended")

        for _ in range(3):
            await daemon.daemon.parts.watch.first_poll()
            await asyncio.sleep(0)
        assert late not in daemon.daemon.parts.watch.leased()
        slurm.end(fill[-1])
        assert slurm.state(late) is SlurmJobState.RUNNING


class StockTypes(SlurmStandIn):
    """Nodes n3 and n4 have the GPU types of a stock site: Slurm holds what is pinned there."""

    async def nodes(self) -> tuple[SlurmNode, ...]:
        shown = await super().nodes()
        return tuple(replace(one, is_typed=one.spec.name not in ("n3", "n4")) for one in shown)


async def test_nodes_without_types_by_index_are_left_to_slurm_where_roost_enforces(
    tmp_path: Path,
) -> None:
    slurm = StockTypes([builders.node(f"n{number}") for number in range(1, 5)])
    before, after = config(tmp_path, mode="shadow"), config(tmp_path)
    async with running(slurm, before, lambda: after) as daemon:
        assert daemon.daemon.state.untyped_partitions() == frozenset()
        daemon.daemon.reload()
        await daemon.until(lambda: daemon.daemon.state.config is after, "the reload")
        jobs = [slurm.submit(gpus_per_node=8)[0] for _ in range(4)]
        await daemon.until(
            lambda: all(slurm.state(one) is SlurmJobState.RUNNING for one in jobs), "all start"
        )

        placed = [one for one in jobs if one in daemon.places()]
        assert {node for one in placed for node in await daemon.allocated(one)} == {"n1", "n2"}
        (third, _) = [one for one in jobs if one not in placed]
        assert (
            "does not fit now on main's nodes with types by index"
            in (await explained(daemon, third)).reason
        )
        async with daemon.operator() as operator:
            shown = await operator.GetNode(pb.GetNodeRequest(name="n3"))
            assert "no types g0, g1" in shown.problems[0]


@pytest.mark.parametrize("standing_pins", [True, False])
async def test_only_a_job_that_fits_on_no_node_without_types_waits_for_the_others(
    tmp_path: Path, standing_pins: bool
) -> None:
    """Without a standing pin it would be passed by those that are left to Slurm."""
    slurm = StockTypes([builders.node(f"n{number}") for number in range(1, 5)])
    settings = {"slurm": {"standing_pins": standing_pins}}
    async with running(slurm, config(tmp_path, **settings)) as daemon:
        fill = [slurm.submit(gpus_per_node=8)[0] for _ in range(4)]
        await daemon.until(
            lambda: all(slurm.state(one) is SlurmJobState.RUNNING for one in fill), "all start"
        )
        (elsewhere,) = slurm.submit(gpus_per_node=2)
        (there,) = slurm.submit(gpus_per_node=2, exclude="n[3-4]")

        def is_pinned(job_id: JobId) -> bool:
            record = daemon.daemon.state.engine.record(job_id)
            return isinstance(record, JobRecord) and record.standing is not None

        def is_left(job_id: JobId) -> bool:
            return slurm.lease_left_s(job_id) <= 0 and not is_pinned(job_id)

        await daemon.until(lambda: is_left(elsewhere), "it is left to Slurm")
        kept = is_pinned if standing_pins else is_left
        await daemon.until(lambda: kept(there), "it is pinned, or left to Slurm as well")


async def test_a_job_that_waits_is_left_to_slurm_once_slurm_hides_a_node(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    """A powered-down cloud node: Slurm wakes it for the job, and Roost does not see it."""
    settings = {"slurm": {"standing_pins": False}}
    async with running(slurm, config(tmp_path, **settings)) as daemon:
        fill = [slurm.submit(gpus_per_node=8)[0] for _ in range(4)]
        await daemon.until(
            lambda: all(slurm.state(one) is SlurmJobState.RUNNING for one in fill), "all start"
        )
        (waits,) = slurm.submit(gpus_per_node=2)
        await daemon.until(lambda: waits in daemon.daemon.parts.watch.leased(), "it is leased")
        slurm.site_rules = SiteRules(hidden={"main": frozenset({NodeName("n9")})})
        await daemon.daemon.parts.watch.first_poll()
        await daemon.until(lambda: slurm.lease_left_s(waits) <= 0, "its lease is ended")
        assert "that Slurm shows" in (await explained(daemon, waits)).reason


async def test_a_job_is_left_to_slurm_at_once_where_slurm_hides_every_node(tmp_path: Path) -> None:
    """On a roostd that has started meanwhile, and has seen none of them."""
    slurm = SlurmStandIn([])
    slurm.site_rules = SiteRules(hidden={"main": frozenset({NodeName("n9")})})
    async with running(slurm, config(tmp_path)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until(lambda: slurm.lease_left_s(job_id) <= 0, "its lease is ended")
        assert "that Slurm shows" in (await explained(daemon, job_id)).reason


async def test_a_job_that_may_get_cpus_of_others_is_left_to_slurm_where_it_does_not_fit(
    tmp_path: Path,
) -> None:
    slurm = SlurmStandIn([builders.node("n1", cpu_count=16)])
    forced = Partition(name="main", over_subscribe="FORCE:4")
    slurm.site_rules = SiteRules(partitions={"main": forced})
    async with running(slurm, config(tmp_path)) as daemon:
        (first,) = slurm.submit(gpus_per_node=1, cpus_per_task=16)
        await daemon.until_running(first)
        assert first in daemon.places()
        (second,) = slurm.submit(gpus_per_node=1, cpus_per_task=16)
        await daemon.until(lambda: slurm.lease_left_s(second) <= 0, "its lease is ended")
        assert "CPUs that no other job" in (await explained(daemon, second)).reason


async def test_a_partition_without_a_list_has_all_nodes(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    slurm.set_node(builders.node("n4", partitions=("main", "debug")))
    slurm.set_node(builders.node("n3", partitions=("main", "debug")))
    async with running(slurm, config(tmp_path, partitions=CANARY)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=8, partition="debug")
        await daemon.until_running(job_id)
        assert set(await daemon.allocated(job_id)) <= {"n3", "n4"}
        assert job_id in daemon.places()


@pytest.fixture
def handed() -> list[JobId]:
    return []


@pytest.fixture
def opt_in(handed: list[JobId]) -> NodeOptIn:
    """A node whose GPUs job 1 is about to get; job 2 waits for them."""
    clock, engine = StillClock(), Engine(EngineConfig(), Policies())
    state = DaemonState(
        version="1",
        clock=clock,
        config=Config.model_validate({"partitions": CANARY}),
        engine=engine,
        board=ProbeBoard(clock.now_s, lambda event: None),
    )
    engine.step(NodeSeen(at_s=0.0, node=builders.node("n1")))
    engine.step(JobQueued(at_s=0.0, job=builders.job("1", gpus=8)))
    engine.step(JobQueued(at_s=0.0, job=builders.job("2", gpus=8)))
    return NodeOptIn(state, lambda job_id, reason: handed.append(job_id))


WAIT = Wait(job_id=JobId("2"), reason="too few free GPUs", until_s=None)


def test_a_job_that_waits_for_closer_gpus_until_a_time_is_kept(
    opt_in: NodeOptIn, handed: list[JobId]
) -> None:
    opt_in.observe(Tick(at_s=99.0), [Wait(job_id=JobId("2"), reason="closer", until_s=100.0)])
    opt_in.observe(Tick(at_s=99.0), [])
    assert handed == []


def test_a_job_is_left_to_slurm_only_once_those_before_it_have_their_gpus(
    opt_in: NodeOptIn, handed: list[JobId]
) -> None:
    opt_in.observe(Tick(at_s=0.0), [WAIT])
    assert handed == []  # Slurm would start it on the GPUs of job 1
    started = JobStarted(at_s=1.0, job_id=JobId("1"), shares=(builders.share("n1", *range(8)),))
    opt_in._state.engine.step(started)
    opt_in.observe(started, [])
    assert handed == ["2"]


def test_a_pin_that_hangs_does_not_keep_others_waiting(
    opt_in: NodeOptIn, handed: list[JobId]
) -> None:
    opt_in.observe(Tick(at_s=0.0), [WAIT])
    opt_in.observe(Tick(at_s=6.0), [])
    assert handed == ["2"]


def test_a_job_that_has_left_is_not_handed_over(opt_in: NodeOptIn, handed: list[JobId]) -> None:
    opt_in.observe(Tick(at_s=0.0), [WAIT])
    ended = JobEnded(at_s=1.0, job_id=JobId("2"))
    opt_in._state.engine.step(ended)
    opt_in.observe(Tick(at_s=9.0), [])
    assert handed == []


def test_a_list_of_nodes_that_cannot_be_read_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "roostd.yaml"
    file.write_text("mode: shadow\npartitions:\n  main: {nodes: 'n[1-'}\n")
    with pytest.raises(ConfigError, match=r"roostd.yaml:3: partitions.main.nodes: "):
        load_config(file, {})


def test_no_job_stands_in_line_for_listed_nodes() -> None:
    assert Config.model_validate({"partitions": CANARY}).listed_nodes() == {
        "main": frozenset({"n1", "n2"})
    }
    assert Config().listed_nodes() == {}
