"""mode_desk: a partition's mode changes in a running daemon, on record, until the file is read."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from tests.daemon.running import Running, config, running

from roost_engine.domain.errors import JournalError
from roost_engine.testing import builders
from roost_proto.v1 import mode_pb2 as pb
from roost_proto.v1 import mode_pb2_grpc as pb_grpc
from roost_proto.v1 import operator_pb2
from roost_slurm.hooks import heartbeat
from roost_slurm.text.squeue import SlurmJobState
from roostd.config.config import Mode
from roostd.rpc.errors import UnknownPartition
from roostd.testing.slurm_stand_in import SlurmStandIn


@pytest.fixture
def slurm() -> SlurmStandIn:
    return SlurmStandIn([builders.node("n1"), builders.node("n2")])


@asynccontextmanager
async def administrator(daemon: Running) -> AsyncIterator["pb_grpc.ModeAdminAsyncStub"]:
    address = f"unix:{daemon.config.admin_socket}"
    async with grpc.aio.insecure_channel(address) as channel:
        yield pb_grpc.ModeAdminStub(channel)


def audited(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "state" / "audit.log").read_text().splitlines()]


async def test_enforce_starts_the_jobs_that_wait_and_is_on_record(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path, mode="shadow")) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until(lambda: job_id in daemon.places(), "it is decided")
        assert slurm.state(job_id) is SlurmJobState.PENDING

        async with administrator(daemon) as admin:
            made = await admin.SetMode(
                pb.SetModeRequest(partition="main", mode=operator_pb2.MODE_ENFORCE, by="ann")
            )
        await daemon.until_running(job_id)

        assert (made.was, made.mode) == (operator_pb2.MODE_SHADOW, operator_pb2.MODE_ENFORCE)
        assert made.configured == operator_pb2.MODE_SHADOW
        assert await daemon.allocated(job_id) == daemon.planned(job_id)
        (line,) = audited(tmp_path)
        facts = [line[key] for key in ("action", "by", "partition", "mode", "was")]
        assert facts == ["set_mode", "ann", "main", "enforce", "shadow"]
        assert isinstance(line["uid"], int)


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.SHADOW, Mode.ADVISE])
async def test_jobs_lose_their_leases_at_once_and_new_ones_get_none(
    slurm: SlurmStandIn, tmp_path: Path, mode: Mode
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        (first,) = slurm.submit(gpus_per_node=8, nodes=(2, 2))
        await daemon.until_running(first)
        (waiting,) = slurm.submit(gpus_per_node=2)
        await daemon.until(lambda: waiting in daemon.daemon.parts.watch.leased(), "it is leased")

        await daemon.daemon.parts.modes.set_mode("main", mode, "ann", {})

        beat = heartbeat.parse((tmp_path / "run" / "heartbeat").read_text())
        assert "main" in beat.excepted
        await daemon.until(lambda: slurm.lease_left_s(waiting) <= 0, "its lease is ended")
        slurm.end(first)
        assert slurm.state(waiting) is SlurmJobState.RUNNING


async def test_a_reload_brings_the_mode_of_the_file_back(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path, mode="shadow")) as daemon:
        desk, state = daemon.daemon.parts.modes, daemon.daemon.state
        await desk.set_mode("main", Mode.ENFORCE, "ann", {})
        assert state.config.mode_of("main") is Mode.ENFORCE

        daemon.daemon.reload()
        await daemon.until(lambda: state.config.mode_of("main") is Mode.SHADOW, "the file's mode")


async def test_what_is_configured_is_what_the_last_reload_read(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    after = config(tmp_path, mode="advise")
    async with running(slurm, config(tmp_path, mode="shadow"), lambda: after) as daemon:
        desk, state = daemon.daemon.parts.modes, daemon.daemon.state
        daemon.daemon.reload()
        await daemon.until(lambda: state.config.mode_of("main") is Mode.ADVISE, "the reload")
        made = await desk.set_mode("main", Mode.OFF, "ann", {})
        assert (made.was, made.configured) == (Mode.ADVISE, Mode.ADVISE)


async def test_the_other_settings_of_a_partition_stay(slurm: SlurmStandIn, tmp_path: Path) -> None:
    settings = config(tmp_path, partitions={"main": {"mode": "enforce", "preemption": True}})
    async with running(slurm, settings) as daemon:
        await daemon.daemon.parts.modes.set_mode("main", Mode.SHADOW, "ann", {})
        assert daemon.daemon.state.config.preempting_partitions() == ["main"]


async def test_a_mode_that_it_has_already_replaces_no_engine(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        engine = daemon.daemon.state.engine
        made = await daemon.daemon.parts.modes.set_mode("main", Mode.ENFORCE, "ann", {})
        assert made.was is made.mode is Mode.ENFORCE
        assert daemon.daemon.state.engine is engine


async def test_an_unknown_partition_is_refused_with_those_that_there_are(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        with pytest.raises(UnknownPartition, match="no partition 'mian'; there are main"):
            await daemon.daemon.parts.modes.set_mode("mian", Mode.OFF, "ann", {})


async def test_what_cannot_be_put_on_record_is_not_done(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with running(slurm, config(tmp_path)) as daemon:
        (tmp_path / "state" / "audit.log").mkdir()
        with pytest.raises(JournalError, match="nothing was changed"):
            await daemon.daemon.parts.modes.set_mode("main", Mode.OFF, "ann", {})
        assert daemon.daemon.state.config.mode_of("main") is Mode.ENFORCE
