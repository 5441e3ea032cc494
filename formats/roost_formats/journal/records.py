"""What a journal holds: heads of runs, steps, what policies know, choices of policies in shadow."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from roost_engine.domain.actions import Action, PinStanding, Place, Preempt, ReleaseToSlurm
from roost_engine.domain.events import Event
from roost_formats.journal.past_jobs import (
    PastJob,
)
from roost_formats.journal.shadow import ShadowChoice
from roost_formats.journal.waits import WaitChange


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHead:
    """What a replay must know before the first event.

    Attributes:
        version: of the daemon.
        policy: what scored: "heuristic", or "onnx:" and twelve digits of the model's sha256.
        epoch_of_zero_s: the wall clock at engine time 0, seconds since 1970.
        began_s: engine time.
        config: the engine's configuration, encoded by journal.codec.
        plugins: which policies it has and what they know, plugins.Plugins, encoded likewise;
            empty: the defaults.
        policies: by slot ("order", "gate", "score", "preemption"): the name of the policy in it;
            empty in a journal of an earlier version.
    """

    version: str
    policy: str
    epoch_of_zero_s: float
    began_s: float
    config: bytes
    plugins: bytes = b""
    policies: Mapping[str, str] = field(default_factory=dict)


TableKey: TypeAlias = tuple[str, str]  # a table of what was learned, and a name in it


@dataclass(frozen=True, slots=True)
class Memo:
    """What policies know by now, encoded; each takes the place of the one before.

    Attributes:
        knowledge: what is in no table.
        entries: those of tables that have changed, by table and name; None: gone. All others stay.
        is_whole: there are no others.
    """

    knowledge: bytes
    entries: Mapping[TableKey, bytes | None] = field(default_factory=dict)
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the engine: what it was told, and what it answered.

    Attributes:
        waits: the waits that the step has changed; empty in a step that was read.
    """

    event: Event
    actions: tuple[Action, ...]
    waits: tuple[WaitChange, ...] = ()


Record: TypeAlias = RunHead | Step | Memo | ShadowChoice | PastJob


# Unions are no `type` to mypy, but they are what the codec reads.
EVENT: type[Event] = Event  # type: ignore[assignment]


ACTIONS: type[tuple[Action, ...]] = tuple[Action, ...]


def must_be_on_disk(record: Record) -> bool:
    """Return whether Slurm is asked, or an operator answered, only after the record is on disk."""
    if isinstance(record, Step):
        return any(
            isinstance(action, Place | PinStanding | ReleaseToSlurm | Preempt)
            for action in record.actions
        )
    return isinstance(record, Memo)
