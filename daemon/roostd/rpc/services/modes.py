"""The ModeAdmin service: administrators change a partition's mode. See mode.proto."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from roost_engine.domain.errors import ConfigError
from roost_proto.v1 import mode_pb2 as pb
from roost_proto.v1 import mode_pb2_grpc as pb_grpc
from roostd.config.config import Mode
from roostd.rpc.access.socket_front import facts_of_caller
from roostd.rpc.errors import Context
from roostd.rpc.messages.daemon_status import MODES


@dataclass(frozen=True, slots=True)
class ModeChange:
    """A change that was made.

    Attributes:
        partition: whose mode it is.
        mode: the mode in effect now.
        was: the mode before.
        configured: the mode by the configuration that was read last.
    """

    partition: str
    mode: Mode
    was: Mode
    configured: Mode


class ModeDesk(Protocol):
    """Changes modes."""

    async def set_mode(
        self, partition: str, mode: Mode, by: str, caller: Mapping[str, object]
    ) -> ModeChange:
        """Change a partition's mode; raises RoostError where it may not be."""


class ModeAdminService(pb_grpc.ModeAdminServicer):
    """Makes changes."""

    def __init__(self, desk: ModeDesk) -> None:
        self._desk = desk

    async def SetMode(self, request: pb.SetModeRequest, context: Context) -> pb.SetModeResponse:
        """See mode.proto."""
        mode = next((mode for mode, number in MODES.items() if number == request.mode), None)
        if mode is None:
            raise ConfigError([f"no mode {request.mode}; want off, shadow, advise or enforce"])
        made = await self._desk.set_mode(
            request.partition, mode, request.by, facts_of_caller(context.peer())
        )
        return pb.SetModeResponse(
            partition=made.partition,
            mode=MODES[made.mode],
            was=MODES[made.was],
            configured=MODES[made.configured],
        )
