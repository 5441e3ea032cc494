"""Calls to the daemon's Waste service."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from roost_proto.v1 import waste_pb2 as pb
from roost_proto.v1.waste_pb2_grpc import WasteStub
from roostctl.clients.calls import CHANNEL_OPTIONS, called


class WasteClient:
    """Questions; each method raises CallFailed and nothing else."""

    def __init__(self, channel: grpc.Channel, address: str, timeout_s: float) -> None:
        self._stub, self._address, self._timeout_s = WasteStub(channel), address, timeout_s

    def get_waste(self, day_count: int) -> pb.GetWasteResponse:
        """Return the sums of the newest days; 0: of all that are kept."""
        request, setting = pb.GetWasteRequest(day_count=day_count), "--daemon or ROOST_DAEMON"
        return called(self._stub.GetWaste, request, self._address, self._timeout_s, setting)


@contextmanager
def connect_waste(address: str, timeout_s: float) -> Iterator[WasteClient]:
    """Open a channel to the daemon; nothing is sent before the first call."""
    with grpc.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield WasteClient(channel, address, timeout_s)
