"""The ModeAdmin service hands requests on in roostd's words, and answers in the wire's."""

from collections.abc import Mapping

import grpc
import pytest
from tests.daemon.rpc.test_errors import FakeCall

from roost_engine.domain.errors import ConfigError
from roost_proto.v1 import mode_pb2 as pb
from roost_proto.v1 import operator_pb2
from roostd.config.config import Mode
from roostd.rpc.errors import UnknownPartition, status_code
from roostd.rpc.services.modes import ModeAdminService, ModeChange


class FakeDesk:
    """Makes every change, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked = list[tuple[str, Mode, str, Mapping[str, object]]]()

    async def set_mode(
        self, partition: str, mode: Mode, by: str, caller: Mapping[str, object]
    ) -> ModeChange:
        self.asked.append((partition, mode, by, caller))
        return ModeChange(partition=partition, mode=mode, was=Mode.OFF, configured=Mode.ADVISE)


class Call(FakeCall):
    """A call over the administrators' socket by an unknown user."""

    def peer(self) -> str:
        return "unix-abstract:%00roostd-0123456789abcdef-uid-4294967294-pid-7"


async def test_a_change_is_handed_on_with_its_caller_and_answered() -> None:
    desk = FakeDesk()
    request = pb.SetModeRequest(partition="main", mode=operator_pb2.MODE_SHADOW, by="ann")
    made = await ModeAdminService(desk).SetMode(request, Call())  # type: ignore[arg-type]
    caller = {"uid": 4294967294, "user": None, "pid": 7}
    assert desk.asked == [("main", Mode.SHADOW, "ann", caller)]
    assert made == pb.SetModeResponse(
        partition="main",
        mode=operator_pb2.MODE_SHADOW,
        was=operator_pb2.MODE_OFF,
        configured=operator_pb2.MODE_ADVISE,
    )


@pytest.mark.parametrize("number", [0, 5])
async def test_a_mode_that_does_not_exist_is_refused(number: int) -> None:
    desk = FakeDesk()
    request = pb.SetModeRequest(partition="main")
    request.mode = number  # type: ignore[assignment]  # as a later roostctl might send
    with pytest.raises(ConfigError, match="want off, shadow, advise or enforce"):
        await ModeAdminService(desk).SetMode(request, Call())  # type: ignore[arg-type]
    assert desk.asked == []


def test_an_unknown_partition_is_not_found() -> None:
    assert status_code(UnknownPartition("no partition 'x'")) is grpc.StatusCode.NOT_FOUND
