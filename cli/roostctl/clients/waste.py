"""Calls to the daemon's Waste service."""

from functools import cached_property

from roost_proto.v1 import waste_pb2 as pb
from roost_proto.v1.waste_pb2_grpc import WasteStub
from roostctl.clients.calls import Client


class WasteClient(Client):
    """Questions about waste."""

    @cached_property
    def _stub(self) -> WasteStub:
        return WasteStub(self.channel)

    def get_waste(self, day_count: int) -> pb.GetWasteResponse:
        """Return the sums of the newest days; 0: of all that are kept."""
        return self.call(self._stub.GetWaste, pb.GetWasteRequest(day_count=day_count))
