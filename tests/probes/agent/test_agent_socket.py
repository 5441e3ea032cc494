"""The node's socket for Slurm's hooks: its answers, and the requests it refuses."""

import asyncio
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.probes.agent.test_agent import make_agent, running
from tests.probes.conftest import FakeNodeFactory, ProcessFactory

from roost_probe.agent import agent_socket
from roost_probe.agent.agent_socket import AgentSocket, gres_order, nearest_nics
from roost_probe.agent.daemon_link import DaemonAddress
from roost_probe.driver.readings import GpuFacts
from roost_probe.errors import SettingsError
from roost_probe.node.monitor import Monitor
from roost_probe.node.nic import Nic
from roost_probe.node.pci import Level, PciPath
from roost_probe.node.topology import Topology
from roost_probe.testing.server import FakeDaemon
from roost_proto.v1 import placement_pb2
from roost_proto.v1 import telemetry_pb2 as pb
from roostd.telemetry import probe_messages


def topology(minors: list[int | None], nics: Mapping[str, Sequence[Level | None]]) -> Topology:
    """A topology of GPUs by minor number, and of NICs by their level to each GPU."""
    return Topology(
        driver_version=None,
        gpus=tuple(GpuFacts(minor_number=minor) for minor in minors),
        links=(),
        nics=tuple(
            Nic(name, PciPath((name,), None), tuple(levels), Path("/sys"))
            for name, levels in nics.items()
        ),
        nic_levels=(),
        problems=(),
    )


@asynccontextmanager
async def listening(
    path: Path,
    daemon: FakeDaemon,
    trusted_uids: list[int] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[AgentSocket]:
    """An agent socket of a node without GPUs."""
    async with DaemonAddress(target=daemon.target).open_channel() as channel:
        agent = AgentSocket(path, "n1", channel, lambda: topology([], {}), trusted_uids, clock)
        await agent.start()
        yield agent
        await agent.close()


Ask = Callable[[object], Awaitable[dict[str, object]]]


@asynccontextmanager
async def asking(path: Path) -> AsyncIterator[Ask]:
    reader, writer = await asyncio.open_unix_connection(path)

    async def ask(request: object) -> dict[str, object]:
        line = request if isinstance(request, bytes) else json.dumps(request).encode()
        writer.write(line + b"\n")
        answer: dict[str, object] = json.loads(await reader.readline())
        return answer

    yield ask
    writer.close()
    await writer.wait_closed()


PLAN = placement_pb2.Plan(
    managed=True, gpu_indices=[2, 3], rank_order=[3, 2], gpu_uuids=["GPU-a", "GPU-b"]
)


@pytest.mark.nvml
async def test_hooks_get_plans_with_the_nearest_nics(
    fake_node: FakeNodeFactory, nvml_process: ProcessFactory, tmp_path: Path
) -> None:
    # gres index 2 is /dev/nvidia2, which is NVML's GPU 5 here.
    node = fake_node("{topology: cube8, minor_numbers: [7, 6, 3, 4, 5, 2, 1, 0]}")
    daemon = FakeDaemon({123: PLAN})
    await daemon.start()
    path = tmp_path / "agent.sock"
    async with running(make_agent(daemon, Monitor(nvml_process(), node.sysfs), path)):
        await daemon.received(sample_count=1)
        async with asking(path) as ask:
            planned = await ask({"op": "plan", "job_id": 123})
            other = await ask({"op": "plan", "job_id": 124})
            right = await ask({"op": "allocated", "job_id": 123, "gpu_indices": [2, 3]})
            wrong = await ask({"op": "allocated", "job_id": 123, "gpu_indices": [0, 1]})
    await daemon.stop()

    assert planned == {
        "managed": True,
        "gpu_indices": [2, 3],
        "rank_order": [3, 2],
        "gpu_uuids": ["GPU-a", "GPU-b"],
        "nics": {"2": "mlx5_2", "3": "mlx5_1"},
    }
    assert other["managed"] is False
    assert (right, wrong) == ({"as_planned": True}, {"as_planned": False})
    assert daemon.reports[0].node == "n1"
    assert not path.exists()


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (b"not json", "no JSON"),
        (b"[" * 4_000, "no JSON"),
        (b'{"op":' + b"[" * 100 + b"]" * 100 + b"}", "unknown op"),
        ([1], "want a JSON object"),
        ({"op": "shutdown"}, "unknown op 'shutdown'; known are plan, allocated and progress"),
        ({"op": "plan"}, "job_id is None; want Slurm's numeric job id"),
        ({"op": "plan", "job_id": "7; rm"}, "want Slurm's numeric job id"),
        ({"op": "plan", "job_id": True}, "want Slurm's numeric job id"),
        ({"op": "allocated", "job_id": 1, "gpu_indices": [-1]}, "want a list of gres indices"),
        ({"op": "progress", "job_id": 1}, "steps is None; want the number of steps"),
        ({"op": "progress", "job_id": 1, "steps": -4}, "want the number of steps"),
        ({"op": "progress", "job_id": 1, "steps": 1e300}, "want the number of steps"),
        ({"op": "progress", "job_id": 1, "steps": 10**30}, "want the number of steps"),
        ({"op": "progress", "job_id": 1, "steps": "/etc/shadow"}, "want the number of steps"),
        (b"\x00\x80\xff\xfe", "no JSON"),
    ],
)
async def test_bad_requests_are_refused_and_the_connection_stays(
    request_: object,
    error: str,
    fake_daemon: FakeDaemon,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "agent.sock"
    async with listening(path, fake_daemon), asking(path) as ask:
        assert error in str((await ask(request_))["error"])
        assert (await ask({"op": "plan", "job_id": 5}))["managed"] is False
    assert not caplog.records


async def test_a_report_without_an_end_closes_only_its_own_connection(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = tmp_path / "agent.sock"
    async with listening(path, fake_daemon), asking(path) as ask:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b'{"op": "progress", "job_id": 7, "steps": ' + b"9" * 100_000)
        writer.write_eof()
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        assert await ask({"op": "progress", "job_id": 7, "steps": 40}) == {
            "accepted": True,
            "reason": "",
        }
    assert [one.step_count for one in fake_daemon.progress] == [40]


async def ask_on(deaf: socket.socket) -> None:
    """Ask again and again, until the answers fill the buffers of the way back."""
    while True:
        await asyncio.get_running_loop().sock_sendall(deaf, b'{"op": 1}\n' * 1_000)


async def test_a_client_that_reads_no_answer_is_cut_off(
    fake_daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_socket, "IDLE_S", 0.3)
    path = tmp_path / "agent.sock"
    async with listening(path, fake_daemon):
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.setblocking(False)
            await asyncio.get_running_loop().sock_connect(deaf, str(path))
            async with asyncio.timeout(30.0):
                with pytest.raises(ConnectionError):
                    await ask_on(deaf)
        async with asking(path) as ask:
            answer = await ask({"op": "progress", "job_id": 7, "steps": 40})
    assert answer["accepted"] is True


async def test_a_client_that_asks_no_more_and_reads_no_answer_is_cut_off(
    fake_daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_socket, "IDLE_S", 0.3)
    path, loop = tmp_path / "agent.sock", asyncio.get_running_loop()
    async with listening(path, fake_daemon) as agent:
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.setblocking(False)
            await loop.sock_connect(deaf, str(path))
            # More answers than the kernel's buffer holds, and fewer than make the probe wait.
            await loop.sock_sendall(deaf, b'{"op": 1}\n' * 700)
            async with asyncio.timeout(30.0):
                for is_open in (True, False):
                    while bool(agent._open) != is_open:  # noqa: ASYNC110  nothing tells of it
                        await asyncio.sleep(0.02)


async def test_progress_goes_to_the_daemon_with_the_user_that_the_kernel_names(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = tmp_path / "agent.sock"
    async with listening(path, fake_daemon), asking(path) as ask:
        answer = await ask({"op": "progress", "job_id": 7, "steps": 40, "uid": 12345})
    assert answer == {"accepted": True, "reason": ""}
    assert [(one.uid, one.step_count) for one in fake_daemon.progress] == [(os.getuid(), 40)]


async def test_hooks_get_an_error_in_time_when_the_daemon_is_away_or_slow(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = tmp_path / "agent.sock"
    loop = asyncio.get_running_loop()
    async with listening(path, fake_daemon), asking(path) as ask:
        fake_daemon.plan_delay_s = 30.0
        started_s = loop.time()
        slow = await ask({"op": "plan", "job_id": 1})
        slow_s = loop.time() - started_s
        await fake_daemon.stop()
        gone = await ask({"op": "plan", "job_id": 1})
        gone_s = loop.time() - started_s - slow_s

    assert slow == {"error": "roostd did not answer: DEADLINE_EXCEEDED"}
    assert str(gone["error"]).startswith("roostd did not answer: ")
    assert 0.4 < slow_s < 1.5  # the deadline is 0.5 s; the machine may be busy
    assert gone_s < 1.5


async def test_a_user_who_asks_too_often_is_refused_and_does_not_reach_the_daemon(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = tmp_path / "agent.sock"
    async with listening(path, fake_daemon, [], clock=lambda: 0.0), asking(path) as ask:
        reports = [await ask({"op": "progress", "job_id": 7, "steps": at}) for at in range(20)]
        wrong = await ask({"op": "progress", "job_id": 7, "steps": -1})
        planned = await ask({"op": "plan", "job_id": 7})  # a burst of its own
    assert [one.get("accepted") for one in reports] == [True] * 16 + [None] * 4
    assert reports[-1] == {"error": "too often; at most 2 a second for each user"}
    assert "want the number of steps" in str(wrong["error"])
    assert planned["managed"] is False
    assert len(fake_daemon.progress) == 16


async def test_hooks_that_run_as_root_ask_as_often_as_they_like(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = tmp_path / "agent.sock"
    me = [os.getuid()]
    async with listening(path, fake_daemon, me, clock=lambda: 0.0), asking(path) as ask:
        for at in range(20):
            assert await ask({"op": "progress", "job_id": 7, "steps": at}) == {
                "accepted": True,
                "reason": "",
            }


async def test_a_user_has_so_many_connections(
    fake_daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_socket, "MOST_CONNECTIONS", 2)
    path = tmp_path / "agent.sock"
    async with listening(path, fake_daemon, []), asking(path) as first, asking(path) as second:
        assert (await first({"op": "plan", "job_id": 7}))["managed"] is False
        assert (await second({"op": "plan", "job_id": 7}))["managed"] is False
        reader, writer = await asyncio.open_unix_connection(path)
        assert await reader.read() == b""
        writer.close()
        assert (await first({"op": "plan", "job_id": 7}))["managed"] is False


async def test_only_trusted_users_report_allocations(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = tmp_path / "agent.sock"
    async with listening(path, fake_daemon, trusted_uids=[]), asking(path) as ask:
        answer = await ask({"op": "allocated", "job_id": 1, "gpu_indices": [0]})
        assert "may not report allocations" in str(answer["error"])
        assert (await ask({"op": "plan", "job_id": 1}))["managed"] is False
    assert fake_daemon.reports == []


async def test_a_socket_that_a_dead_probe_left_behind_is_replaced(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = tmp_path / "agent.sock"
    path.touch()
    async with listening(path, fake_daemon), asking(path) as ask:
        assert path.stat().st_mode & 0o777 == 0o666  # jobs' users ask too
        assert (await ask({"op": "plan", "job_id": 1}))["managed"] is False
    assert not path.exists()


async def test_a_place_where_no_socket_can_be_is_an_error_of_the_settings(
    fake_daemon: FakeDaemon, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="--agent-socket"):
        async with listening(tmp_path / "file" / "agent.sock", fake_daemon):
            pass


@pytest.mark.parametrize(
    ("minors", "order"),
    [
        ([10, 2, 9], [1, 2, 0]),
        ([3, None, 1, 0], [3, 2, 1, 0]),  # a lost GPU has the number that is left
        ([None, 3, None, 0], [3, 0, 2, 1]),
        ([None, None], [0, 1]),
        ([10, None, 9], [0, 1, 2]),  # the lost one may be any of /dev/nvidia0 to 8
        ([0, 0, 1], [0, 1, 2]),
        ([], []),
    ],
)
def test_gres_order_is_by_minor_number_where_these_are_known(
    minors: list[int | None], order: list[int]
) -> None:
    assert gres_order(topology(minors, {})) == order
    hello = pb.Hello(gpus=[pb.Gpu(index=index, minor_number=n) for index, n in enumerate(minors)])
    assert probe_messages.gres_order(hello.gpus) == tuple(order)


def test_a_lost_gpu_leaves_the_others_their_nearest_nics() -> None:
    nics = {"a": [Level.SYSTEM, None, Level.SYSTEM], "b": [Level.SINGLE_SWITCH, None, Level.SYSTEM]}
    found = nearest_nics(topology([0, None, 2], nics), [0, 1, 2])
    assert found == {"0": "b", "2": "a"}


def test_equally_near_nics_are_shared_out() -> None:
    near, far = Level.SINGLE_SWITCH, Level.SYSTEM
    nics = {"a": [near, near, far], "b": [near, near, far], "c": [far, far, near]}
    assert nearest_nics(topology([0, 1, 2], nics), [0, 1, 2]) == {"0": "a", "1": "b", "2": "c"}


def test_the_nearest_nic_is_keyed_by_gres_index_not_nvml_index() -> None:
    nics = {"a": [Level.SYSTEM, Level.INTERNAL], "b": [Level.INTERNAL, Level.SYSTEM]}
    assert nearest_nics(topology([1, 0], nics), [0, 7]) == {"0": "a"}  # there is no GPU 7
