"""Calls to the daemon's ModeAdmin service."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from roost_proto.v1 import mode_pb2 as pb
from roost_proto.v1 import operator_pb2
from roost_proto.v1.mode_pb2_grpc import ModeAdminStub
from roostctl.clients.calls import CHANNEL_OPTIONS, called


class ModesClient:
    """Changes; each method raises CallFailed and nothing else."""

    def __init__(self, channel: grpc.Channel, address: str, timeout_s: float) -> None:
        self._stub, self._address, self._timeout_s = ModeAdminStub(channel), address, timeout_s

    def set_mode(
        self, partition: str, mode: operator_pb2.Mode.ValueType, by: str
    ) -> pb.SetModeResponse:
        """Change the mode of a partition."""
        request = pb.SetModeRequest(partition=partition, mode=mode, by=by)
        setting = "--admin or ROOST_ADMIN"
        return called(self._stub.SetMode, request, self._address, self._timeout_s, setting)


@contextmanager
def connect_modes(address: str, timeout_s: float) -> Iterator[ModesClient]:
    """Open a channel to the daemon's socket for changes; nothing is sent before the first call."""
    with grpc.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield ModesClient(channel, address, timeout_s)
