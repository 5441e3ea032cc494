"""Calls to the daemon's Interference service."""

from functools import cached_property

from roost_proto.v1 import interference_pb2 as pb
from roost_proto.v1.interference_pb2_grpc import InterferenceStub
from roostctl.clients.calls import Client


class InterferenceClient(Client):
    """Questions about neighbours."""

    @cached_property
    def _stub(self) -> InterferenceStub:
        return InterferenceStub(self.channel)

    def get_interference(self, count: int) -> pb.GetInterferenceResponse:
        """Return at most so many learned rows and kinds each."""
        return self.call(self._stub.GetInterference, pb.GetInterferenceRequest(count=count))
