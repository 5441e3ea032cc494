"""The Waste service: GPU-hours that brought nothing, in the words of waste.proto."""

from roost_engine.domain.model import NodeName
from roost_proto.v1 import waste_pb2 as pb
from roost_proto.v1 import waste_pb2_grpc as pb_grpc
from roostd.rpc.access.roles import Access, EveryJob
from roostd.rpc.errors import Context
from roostd.state import DaemonState
from roostd.telemetry.foreign_memory import Foreign
from roostd.telemetry.waste import Seconds

_HOUR_S = 3_600.0


class WasteService(pb_grpc.WasteServicer):
    """Answers from the daemon's sums.

    Args:
        state: the daemon's state.
        access: whose sums a caller may see.
    """

    def __init__(self, state: DaemonState, access: Access | None = None) -> None:
        self._state, self._access = state, access or EveryJob()

    async def GetWaste(self, request: pb.GetWasteRequest, context: Context) -> pb.GetWasteResponse:
        """See waste.proto."""
        return response(self._state, request.day_count, self._access.only_owner(context))


def response(
    state: DaemonState, day_count: int, only_owner: int | None = None
) -> pb.GetWasteResponse:
    """Return the sums of the newest days.

    Args:
        state: the daemon's state.
        day_count: the newest so many days; 0: all.
        only_owner: the user whose sums alone are returned; None: those of all, and of no user.
    """
    tally = state.waste
    now_epoch_s = state.clock.to_epoch_s(state.clock.now_s())
    began = now_epoch_s if tally.began_epoch_s is None else tally.began_epoch_s
    return pb.GetWasteResponse(
        entries=[
            _entry(*row)
            for row in tally.rows(day_count)
            if only_owner is None or row[1] == only_owner
        ],
        counted_s=max(now_epoch_s - began, 0.0),
        fault=tally.fault,
        foreign=[
            _foreign(state, gpu, state.foreign[gpu])
            for gpu in sorted(state.foreign)
            if only_owner is None or state.foreign[gpu].memory.user_id == only_owner
        ],
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
        neighbours_gpu_h=sums.neighbours / _HOUR_S,
        foreign_gpu_h=sums.foreign / _HOUR_S,
    )


def _foreign(state: DaemonState, gpu: tuple[NodeName, int], found: Foreign) -> pb.ForeignMemory:
    return pb.ForeignMemory(
        node=gpu[0],
        gpu_index=gpu[1],
        used_bytes=found.memory.used_bytes,
        held_by=found.held_by or "",
        user_id=found.memory.user_id,
        slurm_job_id=found.memory.slurm_job_id,
        seen_for_s=max(state.clock.now_s() - found.since_s, 0.0),
    )
