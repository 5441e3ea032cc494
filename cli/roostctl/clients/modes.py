"""Calls to the daemon's ModeAdmin service."""

from functools import cached_property

from roost_proto.v1 import mode_pb2 as pb
from roost_proto.v1 import operator_pb2
from roost_proto.v1.mode_pb2_grpc import ModeAdminStub
from roostctl.clients.calls import AdminCaller


class ModesClient(AdminCaller):
    """Changes of modes."""

    @cached_property
    def _stub(self) -> ModeAdminStub:
        return ModeAdminStub(self.channel)

    def set_mode(
        self, partition: str, mode: operator_pb2.Mode.ValueType, by: str
    ) -> pb.SetModeResponse:
        """Change the mode of a partition."""
        request = pb.SetModeRequest(partition=partition, mode=mode, by=by)
        return self.call(self._stub.SetMode, request)
