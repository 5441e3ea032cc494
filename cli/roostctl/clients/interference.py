"""Calls to the daemon's Interference service."""

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from roost_proto.v1 import interference_pb2 as pb
from roost_proto.v1.interference_pb2_grpc import InterferenceStub
from roostctl.clients.calls import CHANNEL_OPTIONS, called


class InterferenceClient:
    """Questions; each method raises CallFailed and nothing else."""

    def __init__(self, channel: grpc.Channel, address: str, timeout_s: float) -> None:
        self._stub, self._address = InterferenceStub(channel), address
        self._timeout_s = timeout_s

    def get_interference(self, count: int) -> pb.GetInterferenceResponse:
        """Return at most so many learned rows and kinds each."""
        request, setting = pb.GetInterferenceRequest(count=count), "--daemon or ROOST_DAEMON"
        ask = self._stub.GetInterference
        return called(ask, request, self._address, self._timeout_s, setting)


@contextmanager
def connect_interference(address: str, timeout_s: float) -> Iterator[InterferenceClient]:
    """Open a channel to the daemon; nothing is sent before the first call."""
    with grpc.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield InterferenceClient(channel, address, timeout_s)
