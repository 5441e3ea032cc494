"""Users who may open the administrators' socket set timers, and every change is audited."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from tests.daemon.rpc.served import Served

from roost_engine.domain.errors import JournalError
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.delay import DelayConfig, DelayGate
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import delay_policies
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import operator_pb2_grpc as pb_grpc
from roostd.config.config import Config
from roostd.ops import audit


@pytest.fixture
def admin(served: Served, tmp_path: Path) -> "pb_grpc.AdminAsyncStub":
    served.state.engine = Engine(EngineConfig(), delay_policies(DelayGate(DelayConfig())))
    served.state.config = Config.model_validate(
        {"gate": {"kind": "delay"}, "paths": {"state_dir": str(tmp_path)}}
    )
    channel = grpc.aio.insecure_channel(f"unix:{served.socket.with_name('admin.sock')}")
    served.channels.append(channel)
    return pb_grpc.AdminStub(channel)


def audited(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / audit.FILE_NAME).read_text().splitlines()]


async def refusal(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call()  # type: ignore[misc]
    return caught.value.code(), caught.value.details() or ""


async def test_a_timer_is_pinned_shown_and_given_back(
    served: Served, admin: "pb_grpc.AdminAsyncStub", tmp_path: Path
) -> None:
    timer = await admin.PinTimer(pb.PinTimerRequest(name="8/high", pinned_s=300, by="alice"))
    assert (timer.pinned_s, timer.node_timer_s, timer.rack_timer_s) == (300, 300, 300)
    listed = await served.operator().ListTimers(pb.ListTimersRequest())
    assert listed.gate == "delay"
    assert [(one.name, one.pinned_s) for one in listed.timers] == [("8/high", 300)]
    timer = await admin.UnpinTimer(pb.UnpinTimerRequest(name="8/high", by="bob\n"))
    assert not timer.HasField("pinned_s")
    facts = [
        {key: line[key] for key in ("action", "by", "timer", "pinned_s", "was_s")}
        for line in audited(tmp_path)
    ]
    assert facts == [
        {"action": "pin_timer", "by": "alice", "timer": "8/high", "pinned_s": 300, "was_s": None},
        {"action": "unpin_timer", "by": "bob?", "timer": "8/high", "pinned_s": None, "was_s": 300},
    ]


@pytest.mark.parametrize(
    ("name", "seconds", "message"),
    [
        ("9/high", 60.0, "no timer '9/high'; want one of 1/low to 64/high, as 8/high"),
        ("", 60.0, "no timer ''; want one of 1/low to 64/high, as 8/high"),
        ("8/high", -1.0, "want 0 to 2592000 seconds, got -1"),
        ("8/high", float("nan"), "want 0 to 2592000 seconds, got nan"),
    ],
)
async def test_nonsense_is_refused_and_not_on_record(
    admin: "pb_grpc.AdminAsyncStub", tmp_path: Path, name: str, seconds: float, message: str
) -> None:
    request = pb.PinTimerRequest(name=name, pinned_s=seconds)
    assert await refusal(lambda: admin.PinTimer(request)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        message,
    )
    assert not (tmp_path / audit.FILE_NAME).exists()


async def test_a_gate_without_timers_says_so(
    served: Served, admin: "pb_grpc.AdminAsyncStub"
) -> None:
    served.state.engine = Engine(EngineConfig(), Policies())
    served.state.config = Config.model_validate({"gate": {"kind": "open"}})
    code, message = await refusal(lambda: admin.UnpinTimer(pb.UnpinTimerRequest(name="8/high")))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert message == "gate.kind is open: only the delay gate has timers to set"


async def test_what_cannot_be_put_on_record_is_not_done(
    served: Served, admin: "pb_grpc.AdminAsyncStub", tmp_path: Path
) -> None:
    (tmp_path / audit.FILE_NAME).mkdir()
    request = pb.PinTimerRequest(name="8/high", pinned_s=300)
    code, message = await refusal(lambda: admin.PinTimer(request))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert message.endswith("audit.log: Is a directory; nothing was changed")
    assert served.emitted == []


async def test_only_the_daemons_user_may_make_changes(
    served: Served, admin: "pb_grpc.AdminAsyncStub"
) -> None:
    path = served.socket.with_name("admin.sock")
    assert stat.S_IMODE(path.stat().st_mode) & 0o007 == 0
    async with grpc.aio.insecure_channel(f"unix:{served.socket}") as channel:
        stub = pb_grpc.AdminStub(channel)
        code, _ = await refusal(lambda: stub.UnpinTimer(pb.UnpinTimerRequest(name="8/high")))
    assert code is grpc.StatusCode.UNIMPLEMENTED


def test_the_log_is_only_added_to(tmp_path: Path) -> None:
    audit.append(tmp_path, "one", "alice", timer="8/high")
    audit.append(tmp_path, "two", "x" * 100)
    assert [line["action"] for line in audited(tmp_path)] == ["one", "two"]
    assert audited(tmp_path)[1]["by"] == "x" * 64
    assert stat.S_IMODE((tmp_path / audit.FILE_NAME).stat().st_mode) == 0o600
    with pytest.raises(JournalError, match="No such file or directory; nothing was changed"):
        audit.append(tmp_path / "none", "one", "alice")
