"""The Waste service: GPU-hours that brought nothing, in the words of waste.proto."""

from roost_proto.v1 import waste_pb2 as pb
from roost_proto.v1 import waste_pb2_grpc as pb_grpc
from roostd.rpc.errors import Context
from roostd.state import DaemonState
from roostd.telemetry.waste import Seconds

_HOUR_S = 3_600.0


class WasteService(pb_grpc.WasteServicer):
    """Answers from the daemon's sums."""

    def __init__(self, state: DaemonState) -> None:
        self._state = state

    async def GetWaste(self, request: pb.GetWasteRequest, context: Context) -> pb.GetWasteResponse:
        """See waste.proto."""
        return response(self._state, request.day_count)


def response(state: DaemonState, day_count: int) -> pb.GetWasteResponse:
    """Return the sums of the newest days; 0: of all."""
    tally = state.waste
    now_epoch_s = state.clock.to_epoch_s(state.clock.now_s())
    began = now_epoch_s if tally.began_epoch_s is None else tally.began_epoch_s
    return pb.GetWasteResponse(
        entries=[_entry(*row) for row in tally.rows(day_count)],
        counted_s=max(now_epoch_s - began, 0.0),
        fault=tally.fault,
    )


def _entry(day: str, user_id: int | None, sums: Seconds) -> pb.WasteEntry:
    return pb.WasteEntry(
        day=day,
        user_id=user_id,
        held_gpu_h=sums.held / _HOUR_S,
        idle_gpu_h=sums.idle / _HOUR_S,
        unknown_gpu_h=sums.unknown / _HOUR_S,
        split_gpu_h=sums.split / _HOUR_S,
        unreachable_gpu_h=sums.unreachable / _HOUR_S,
        half_free_gpu_h=sums.half_free / _HOUR_S,
    )
