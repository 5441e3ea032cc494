"""Channels to roostd."""

from pathlib import Path

import grpc
import pytest

from roost_probe.agent.daemon_link import DaemonAddress, Tls
from roost_probe.errors import SettingsError
from roost_probe.testing.server import FakeDaemon
from roost_proto.v1 import placement_pb2, placement_pb2_grpc


@pytest.mark.parametrize("missing", ["ca.pem", "cert.pem", "key.pem"])
def test_a_tls_file_that_cannot_be_read_is_named(missing: str, tmp_path: Path) -> None:
    for name in {"ca.pem", "cert.pem", "key.pem"} - {missing}:
        (tmp_path / name).touch()
    tls = Tls(ca=tmp_path / "ca.pem", certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    with pytest.raises(SettingsError, match=rf"{missing}: No such file or directory"):
        DaemonAddress(target="127.0.0.1:1", tls=tls).open_channel()


async def test_a_channel_without_tls_reaches_the_daemon(fake_daemon: FakeDaemon) -> None:
    async with DaemonAddress(target=fake_daemon.target).open_channel() as channel:
        stub = placement_pb2_grpc.PlacementStub(channel)
        plan = await stub.GetPlan(placement_pb2.GetPlanRequest(slurm_job_id=1), timeout=60.0)
    assert plan.managed is False


async def test_an_answer_above_64_kib_is_refused() -> None:
    daemon = FakeDaemon({1: placement_pb2.Plan(gpu_uuids=["x" * (1 << 16)])})
    await daemon.start()
    async with DaemonAddress(target=daemon.target).open_channel() as channel:
        stub = placement_pb2_grpc.PlacementStub(channel)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.GetPlan(placement_pb2.GetPlanRequest(slurm_job_id=1), timeout=60.0)
    await daemon.stop()
    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
