"""What `roostctl timers --json` prints, and `timers pin` and `unpin`."""

from typing import TypedDict

from roost_proto.v1 import operator_pb2 as pb
from roostctl.documents.values import finite, real


class TimerDocument(TypedDict):
    """How long jobs of one class wait."""

    name: str
    node_timer_s: float | None
    rack_timer_s: float | None
    sample_count: int
    waited_count: int
    censored_frac: float | None
    tuned_ago_s: float | None
    pinned_s: float | None
    dally_node_timer_s: float | None
    dally_rack_timer_s: float | None


class TimersDocument(TypedDict):
    """`roostctl timers --json`."""

    schema: str
    gate: str
    timers: list[TimerDocument]


class ChangedTimerDocument(TypedDict):
    """`roostctl timers pin --json`, and `unpin`."""

    schema: str
    timer: TimerDocument


def timer_document(timer: pb.Timer) -> TimerDocument:
    """One class, as `timers` shows it."""
    return {
        "name": timer.name,
        "node_timer_s": finite(timer.node_timer_s),
        "rack_timer_s": finite(timer.rack_timer_s),
        "sample_count": timer.sample_count,
        "waited_count": timer.waited_count,
        "censored_frac": real(timer, "censored_frac"),
        "tuned_ago_s": real(timer, "tuned_ago_s"),
        "pinned_s": real(timer, "pinned_s"),
        "dally_node_timer_s": finite(timer.dally_node_timer_s),
        "dally_rack_timer_s": finite(timer.dally_rack_timer_s),
    }
