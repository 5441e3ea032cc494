"""The Interference service: what was learned of neighbours, in the words of interference.proto."""

from collections.abc import Iterable
from math import hypot

from roost_engine.domain.job_kind import user_and_name
from roost_engine.policies.neighbour_losses import PredictsLosses
from roost_engine.prediction.interference.interference_table import ALONE, Key, Residuals
from roost_engine.sharing.pairs import CorrectedPair
from roost_proto.v1 import interference_pb2 as pb
from roost_proto.v1 import interference_pb2_grpc as pb_grpc
from roostd.rpc.errors import Context
from roostd.state import DaemonState
from roostd.telemetry.speed_source import SpeedSource

_DEFAULT_COUNT = 20
_MOST_COUNT = 1_000


class InterferenceService(pb_grpc.InterferenceServicer):
    """Answers from what the daemon has learned.

    Args:
        state: the daemon's state.
    """

    def __init__(self, state: DaemonState) -> None:
        self._state = state

    async def GetInterference(
        self, request: pb.GetInterferenceRequest, context: Context
    ) -> pb.GetInterferenceResponse:
        """See interference.proto."""
        return response(self._state, request.count)


def response(state: DaemonState, count: int) -> pb.GetInterferenceResponse:
    """Return the rows that were mispredicted most, and the kinds with the most reports.

    Args:
        state: the daemon's state.
        count: at most so many of each; 0: 20.
    """
    tracker, score = state.progress, state.engine.policies.score
    sources = state.speed_sources()
    deciding = score if isinstance(score, PredictsLosses) else None
    most = min(count or _DEFAULT_COUNT, _MOST_COUNT)
    rows = [_row(source, *row) for source in sources for row in source.table.worst(None)]
    rows.sort(key=lambda row: -abs(row.residual))
    kinds = [_kind(source, *kind) for source in sources for kind in source.table.kinds().items()]
    return pb.GetInterferenceResponse(
        model=tracker.model if deciding is None else deciding.name,
        decides=deciding is not None,
        correcting_count=0 if deciding is None else deciding.correction_count,
        rows=rows[:most],
        kinds=kinds[:most],
        row_count=len(rows),
        kind_count=len(kinds),
        fault="; ".join(_known((*(source.fault for source in sources), tracker.model_fault))),
        shared_pairs=[_pair(pair) for pair in _corrected(state)[:most]],
    )


def _known(faults: Iterable[str]) -> list[str]:
    return [fault for fault in faults if fault]


def _corrected(state: DaemonState) -> list[CorrectedPair]:
    seating = state.engine.seating
    return [] if seating is None else seating.corrected()


def _pair(pair: CorrectedPair) -> pb.SharedPair:
    return pb.SharedPair(
        user_id=pair.user_id,
        model=pair.model,
        beside=pair.beside,
        measured=pair.measured,
        corrected=pair.corrected,
        run_count=pair.run_count,
        is_bad=pair.is_bad,
    )


def _row(source: SpeedSource, key: Key, found: Residuals) -> pb.InterferenceRow:
    user_id, name = user_and_name(key.kind)
    row = pb.InterferenceRow(
        user_id=user_id,
        job_name=name,
        level=key.level,
        residual=found.mean,
        report_count=found.count / source.weight,
        predicted=found.predicted,
        observed=found.observed,
        error=hypot(found.error, source.error_floor),
        from_activity=source.is_estimate,
    )
    if key.beside != ALONE:
        row.beside_user_id, row.beside_job_name = user_and_name(key.beside)
    return row


def _kind(source: SpeedSource, kind: str, found: Residuals) -> pb.InterferenceKind:
    user_id, name = user_and_name(kind)
    return pb.InterferenceKind(
        user_id=user_id,
        job_name=name,
        residual=found.mean,
        report_count=found.count / source.weight,
        error=hypot(found.error, source.error_floor),
        from_activity=source.is_estimate,
    )
