"""Replays a journal: feeds its events to a fresh engine and compares every action."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from roost_engine.domain.actions import Action, Place
from roost_engine.domain.events import Event
from roost_engine.domain.lazy import Lazy
from roost_engine.engine import Engine
from roost_engine.job_record import shares_of
from roost_sim.replays.recording import Entry, ModelShelf, Recording, RepeatedRun, Run

EventCounter = Callable[[int], None]  # called with the number of events read since the last call


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first step whose actions are not the recorded ones.

    Attributes:
        run: its number.
        event: number of the event in its run, from 1.
        entry: number of the journal's entry.
        at_s: engine time.
        at: the wall clock at that time, UTC, ISO 8601.
        event_text: the event as text.
        recorded, got: the actions as text.
        fields: the fields in which the first pair of unequal actions differs; empty where one
            side has no more actions.
        recorded_version: of the daemon that wrote the run.
        policies: the slots whose policy has another name here than in the record, in words:
            "gate: recorded delay, here open"; empty too if the journal does not name them.
    """

    run: int
    event: int
    entry: int
    at_s: float
    at: str
    event_text: str
    recorded: tuple[str, ...]
    got: tuple[str, ...]
    fields: tuple[str, ...]
    recorded_version: str
    policies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReplay:
    """How much of one run was replayed, up to the first difference."""

    number: int
    version: str
    policy: str
    events: int
    actions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """The result of replaying a journal; it ends at the first difference."""

    runs: tuple[RunReplay, ...]
    difference: Difference | None

    @property
    def event_count(self) -> int:
        """Events that were replayed."""
        return sum(run.events for run in self.runs)

    @property
    def action_count(self) -> int:
        """Actions that were equal to the recorded ones."""
        return sum(run.actions for run in self.runs)


def replay(recording: Recording, models: ModelShelf, progress: EventCounter) -> Replay:
    """Replay every run of a journal, up to the first difference.

    Args:
        recording: the journal.
        models: where the models of its runs are found.
        progress: called after each event.

    Raises:
        RecordingError: the journal is damaged, or a model is not available.
    """
    runs = list[RunReplay]()
    for run in recording.runs:
        repeated, difference = _repeat(recording, run, models, progress)
        runs.append(repeated)
        if difference is not None:
            return Replay(runs=tuple(runs), difference=difference)
    return Replay(runs=tuple(runs), difference=None)


def replay_document(found: Replay) -> dict[str, object]:
    """Return the JSON object of a replay. Page: docs/simulator/replay.md."""
    return {
        "reproduced": found.difference is None,
        "events": found.event_count,
        "actions": found.action_count,
        "runs": [dataclasses.asdict(run) for run in found.runs],
        "difference": None if found.difference is None else dataclasses.asdict(found.difference),
    }


def _repeat(
    recording: Recording, run: Run, models: ModelShelf, progress: EventCounter
) -> tuple[RunReplay, Difference | None]:
    again = RepeatedRun(recording, run, models)
    event_count = action_count = 0
    difference: Difference | None = None
    for entry in recording.entries(run):
        event = recording.event(entry)
        got = again.step(entry, event)
        event_count += 1
        progress(1)
        if not again.is_as_recorded(entry, got):
            recorded = recording.actions(entry)
            policies = _other_policies(run, again.engine)
            difference = _difference(run, event_count, entry, event, recorded, got, policies)
            break
        action_count += len(got)
    repeated = RunReplay(
        number=run.number,
        version=run.head.version,
        policy=run.head.policy,
        events=event_count,
        actions=action_count,
    )
    return repeated, difference


def _difference(
    run: Run,
    number: int,
    entry: Entry,
    event: Event,
    recorded: tuple[Action, ...],
    got: tuple[Action, ...],
    policies: tuple[str, ...],
) -> Difference:
    at = datetime.fromtimestamp(run.head.epoch_of_zero_s + event.at_s, UTC)
    pairs = zip(recorded, got, strict=False)
    fields = next((found for pair in pairs if (found := differing_fields(*pair))), ())
    return Difference(
        run=run.number,
        event=number,
        entry=entry.sequence,
        at_s=event.at_s,
        at=at.isoformat(timespec="milliseconds"),
        event_text=in_words(event),
        recorded=tuple(map(in_words, recorded)),
        got=tuple(map(in_words, got)),
        fields=fields,
        recorded_version=run.head.version,
        policies=policies,
    )


def _other_policies(run: Run, engine: Engine) -> tuple[str, ...]:
    """Return, in words, the slots whose policy in an engine is not the one that the run names."""
    names = engine.policy_names
    return tuple(
        f"{slot}: recorded {recorded}, here {names.get(slot, 'no such slot')}"
        for slot, recorded in run.head.policies.items()
        if names.get(slot) != recorded
    )


def differing_fields(one: object, other: object) -> tuple[str, ...]:
    """Return the paths at which two values differ: "decision.scores"; "" is the value itself."""
    if isinstance(one, Lazy) and isinstance(other, Lazy):
        return differing_fields(one.get(), other.get())
    if type(one) is not type(other):
        return ("",)
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        alike = (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
        return () if alike else ("",)
    if not dataclasses.is_dataclass(one):
        return () if one == other else ("",)
    return tuple(
        f"{field.name}.{path}".rstrip(".")
        for field in dataclasses.fields(one)
        for path in differing_fields(getattr(one, field.name), getattr(other, field.name))
    )


def in_words(value: Event | Action) -> str:
    """Write an event or an action on one line, without its arrays."""
    if isinstance(value, Place):
        decision = value.decision.get()
        scored = f"{decision.policy}, score {float(decision.scores[0]):.9g}"
        fallback = f"; fell back: {decision.fallback_reason}" if decision.fallback_reason else ""
        return f"Place {value.job_id} on {_where(value)} ({scored}{fallback})"
    return f"{type(value).__name__} {', '.join(_parts(value))}".rstrip()


def _where(action: Place) -> str:
    """Nodes and GPUs of a placement; nodes with the same GPU indices are named together."""
    nodes_of: dict[tuple[int, ...], list[str]] = {}
    for share in shares_of(action.placement):
        nodes_of.setdefault(share.gpu_indices, []).append(share.node)
    return "; ".join(
        f"{','.join(nodes)} GPUs {','.join(map(str, gpus))}" for gpus, nodes in nodes_of.items()
    )


def _parts(value: Event | Action) -> list[str]:
    parts = []
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if field.name == "at_s" and hasattr(value, "job_id"):
            continue
        if isinstance(item, str | float | int):
            parts.append(f"{field.name}={item}")
        elif dataclasses.is_dataclass(item):
            name = getattr(item, "job_id", None) or getattr(item, "name", None)
            parts += [f"{field.name}={name}"] if name else []
    return parts
