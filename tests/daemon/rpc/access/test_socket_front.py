"""Administrators are known by the user id that the kernel gives, whatever they say."""

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from tests.daemon.rpc.served import Served

from roost_engine.domain.errors import ConfigError
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.testing.builders import delay_policies
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import operator_pb2_grpc as pb_grpc
from roostd.config.config import Config
from roostd.ops import audit
from roostd.rpc.access.limits import MOST_CONNECTIONS, SPARE_CONNECTIONS_OF_ROOT
from roostd.rpc.access.socket_front import Caller, SocketFront, caller_of, facts_of_caller

NOBODY = 65_534
PIN_AS_ANOTHER_USER = """
import os, sys
import contextlib, grpc, grpc._channel, grpc.experimental
from roost_proto.v1 import operator_pb2 as pb, operator_pb2_grpc as pb_grpc
path, uid = sys.argv[1], int(sys.argv[2])
os.setuid(uid)
with grpc.insecure_channel(f"unix:{path}") as channel:
    pb_grpc.AdminStub(channel).PinTimer(
        pb.PinTimerRequest(name="8/high", pinned_s=300, by="root"), timeout=60
    )
"""


def with_timers(served: Served, folder: Path) -> Path:
    """A daemon whose gate has timers, and its administrators' socket."""
    served.state.engine = Engine(EngineConfig(), delay_policies(DelayGate(DelayConfig())))
    served.state.config = Config.model_validate(
        {"gate": {"kind": "delay"}, "paths": {"state_dir": str(folder)}}
    )
    return served.socket.with_name("admin.sock")


def audited(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / audit.FILE_NAME).read_text().splitlines()]


async def test_the_kernels_user_is_on_record_beside_the_claimed_name(
    served: Served, tmp_path: Path
) -> None:
    path = with_timers(served, tmp_path)
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        await pb_grpc.AdminStub(channel).PinTimer(
            pb.PinTimerRequest(name="8/high", pinned_s=300, by="mallory")
        )
    (line,) = audited(tmp_path)
    assert (line["by"], line["uid"], line["pid"]) == ("mallory", os.getuid(), os.getpid())


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
async def test_a_user_who_claims_to_be_root_is_on_record_by_name(
    served: Served, tmp_path: Path
) -> None:
    path = with_timers(served, tmp_path)
    path.chmod(0o666)
    argv = [sys.executable, "-c", PIN_AS_ANOTHER_USER, str(path), str(NOBODY)]
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    (line,) = audited(tmp_path)
    assert (line["by"], line["uid"]) == ("root", NOBODY)
    assert line["user"] == "nobody"


async def test_only_the_daemons_user_reaches_grpcs_own_socket(served: Served) -> None:
    inner = served.socket.with_name(".admin")
    assert stat.S_IMODE(inner.stat().st_mode) == 0o700
    assert stat.S_ISSOCK((inner / "grpc").stat().st_mode)


@pytest.mark.parametrize(
    ("peer", "caller"),
    [
        ("unix-abstract:roostd-0123456789abcdef-uid-1000-pid-77", Caller(1000, 77)),
        ("unix-abstract:%00roostd-0123456789abcdef-uid-0-pid-1", Caller(0, 1)),
        ("unix:", None),
        ("unix:/tmp/roostd-0123456789abcdef-uid-0-pid-1", None),
        ("ipv4:127.0.0.1:1", None),
    ],
)
def test_a_name_that_the_front_did_not_give_is_no_caller(peer: str, caller: Caller | None) -> None:
    assert caller_of(peer) == caller
    assert facts_of_caller(peer).get("uid") == (caller.uid if caller else None)


async def test_a_user_has_eight_connections_and_root_eight_more_than_all_others(
    tmp_path: Path,
) -> None:
    front, waits = SocketFront(tmp_path / "admin.sock"), asyncio.Event()

    async def serve() -> None:
        await waits.wait()

    def admitted(uid: int, wanted: int) -> int:
        count = 0
        while count < wanted and front._has_capacity(uid):
            front._connections[asyncio.create_task(serve())] = uid
            count += 1
        return count

    assert [admitted(uid, 10) for uid in range(10_000, 10_007)] == [8] * 7
    assert admitted(10_007, 10) == 8 == MOST_CONNECTIONS - 7 * 8
    assert admitted(10_008, 10) == 0
    assert admitted(0, 20) == 8
    waits.set()
    await asyncio.gather(*front._connections)


async def test_connections_beyond_the_most_are_closed_and_the_others_served(
    served: Served, tmp_path: Path
) -> None:
    path = with_timers(served, tmp_path)
    idle = []
    for _ in range(MOST_CONNECTIONS + SPARE_CONNECTIONS_OF_ROOT + 10):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        idle.append(connection)
    await asyncio.sleep(0.3)
    for connection in idle:
        connection.close()
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        await pb_grpc.AdminStub(channel).PinTimer(  # the front has yet to see that they are closed
            pb.PinTimerRequest(name="8/high", pinned_s=1), timeout=60, wait_for_ready=True
        )
    assert len(audited(tmp_path)) == 1


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".admin").write_text("precious")
    with pytest.raises(ConfigError, match=r"listen\.admin_socket"):
        SocketFront(tmp_path / "admin.sock").make_folder()
    assert (tmp_path / ".admin").read_text() == "precious"
