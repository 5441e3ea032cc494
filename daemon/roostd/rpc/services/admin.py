"""The Admin service: changes by administrators, the users that can open its socket."""

from collections.abc import Awaitable, Callable
from math import isfinite

import structlog

from roost_engine.domain.errors import TimerError
from roost_engine.domain.events import SpeedSeen, TimerPinned
from roost_engine.prediction.speed.job_class import ALL_CLASSES, TimerClass
from roost_proto.v1 import operator_pb2 as pb
from roost_proto.v1 import operator_pb2_grpc as pb_grpc
from roostd.ops import audit
from roostd.rpc.access.socket_front import facts_of_caller
from roostd.rpc.errors import Context, NoTimers
from roostd.rpc.messages import timers
from roostd.state import DaemonState

_log = structlog.get_logger(__name__)

ReportEvent = Callable[[TimerPinned | SpeedSeen], Awaitable[None]]
_LONGEST_PIN_S = 30 * 86_400.0


class AdminService(pb_grpc.AdminServicer):
    """Makes changes: each is audited, applied by the engine, written to disk, then answered.

    Args:
        state: the daemon's state.
        report: reports an event to the engine; returns when the engine has applied it and its
            effect is on disk.
    """

    def __init__(self, state: DaemonState, report: ReportEvent) -> None:
        self._state, self._report = state, report

    async def PinTimer(self, request: pb.PinTimerRequest, context: Context) -> pb.Timer:
        """See operator.proto."""
        pinned_s = request.pinned_s
        if not (isfinite(pinned_s) and 0 <= pinned_s <= _LONGEST_PIN_S):
            raise TimerError(f"want 0 to {_LONGEST_PIN_S:.0f} seconds, got {pinned_s:g}")
        return await self._set(request.name, pinned_s, request.by, context)

    async def UnpinTimer(self, request: pb.UnpinTimerRequest, context: Context) -> pb.Timer:
        """See operator.proto."""
        return await self._set(request.name, None, request.by, context)

    async def _set(self, name: str, pinned_s: float | None, by: str, context: Context) -> pb.Timer:
        known = TimerClass.parse(name)
        if known is None:
            first, last = ALL_CLASSES[0], ALL_CLASSES[-1]
            raise TimerError(f"no timer {name[:40]!r}; want one of {first} to {last}, as 8/high")
        if self._state.engine.policies.timers is None:
            kind = self._state.config.choice.in_effect.gate
            raise NoTimers(f"gate.kind is {kind}: only the delay gate has timers to set")
        was_s = self._state.engine.policies.timers.pinned_s(str(known))
        action = "unpin_timer" if pinned_s is None else "pin_timer"
        facts = {
            "timer": str(known),
            "pinned_s": pinned_s,
            "was_s": was_s,
            **facts_of_caller(context.peer()),
        }
        digest = audit.append(self._state.config.paths.state_dir, action, by, **facts)
        _log.info(action, by=by, **facts, chain=digest)
        at_s = self._state.clock.now_s()
        await self._report(TimerPinned(at_s=at_s, timer=str(known), pinned_s=pinned_s))
        return timers.one(self._state, known)
