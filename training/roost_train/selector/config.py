"""The configuration of a selector's training, as a YAML file gives it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from math import inf
from pathlib import Path
from typing import Any, TypeVar

from roost_formats.yaml.tree import KeyPath, read_tree
from roost_sim.worlds.world_spec import Speed
from roost_train.environments.episodes import Draw
from roost_train.environments.rewards import Reward
from roost_train.environments.slot_run import Reads, Slot
from roost_train.errors import TrainError
from roost_train.improvement.expert_iteration import ExpertParameters
from roost_train.improvement.imitation import ImitationParameters
from roost_train.improvement.improvement import Method
from roost_train.improvement.ppo import PpoParameters
from roost_train.text_file import read_text

_T = TypeVar("_T")


class WarmStart(StrEnum):
    """With which policy a training begins."""

    IMITATION = "imitation"  # of the teacher's decisions
    RESIDUAL = "residual"  # exactly a heuristic, plus a network at zero: the due time of the
    # learned order, or Roost's points of a placement


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeNumbers:
    """What is played; see environments.episodes.Episodes."""

    job_count: int = 480
    draw: Draw = Draw.SAMPLED
    warm_count: int = 64
    loads: tuple[float, ...] = (0.9, 1.1, 1.3)
    teacher: str = "learned+consolidation+patient"
    reward: Reward = Reward.COMPLETION
    may_wait: bool = False
    window_count: int = 128
    slot: Slot = Slot.ORDER
    reads: Reads = Reads.SCORE
    speed: Speed = Speed.TRACE
    compute_scale: float = 1.0
    agents: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorConfig:
    """Everything that decides how a training comes out, beside trace and cluster.

    Attributes:
        episodes: what is played.
        warm_start: with which policy the training begins.
        imitation: the numbers of that warm start.
        imitated_episodes: of the teacher, those held out included; imitation.seed says which.
        improvement: how the warm start is improved.
        ppo, expert: the numbers of each way; those of the other are not read.
        iterations: of the improvement.
        validated_episodes: on which checkpoints are compared; none of them is trained on.
        validate_every: so many iterations.
    """

    episodes: EpisodeNumbers = field(default_factory=EpisodeNumbers)
    warm_start: WarmStart = WarmStart.IMITATION
    imitation: ImitationParameters = field(default_factory=ImitationParameters)
    imitated_episodes: int = 32
    improvement: Method = Method.PPO
    ppo: PpoParameters = field(default_factory=PpoParameters)
    expert: ExpertParameters = field(default_factory=ExpertParameters)
    iterations: int = 40
    validated_episodes: int = 16
    validate_every: int = 4


_LARGEST = 1e15  # a larger number is a mistake, and no float64 holds all whole numbers there


def read_config(path: Path | None) -> SelectorConfig:
    """Return the configuration of a file; keys that are left out have their defaults.

    Raises:
        TrainError: the file is no YAML mapping, or has an unknown key or a value of another type.
        OSError: the file cannot be read.
    """
    if path is None:
        return SelectorConfig()
    tree = read_tree(read_text(path))
    if tree.problems:
        first = tree.problems[0]
        raise TrainError(f"{path}:{first.line}: {first.text}")
    return _Reader(path, tree.lines).filled(SelectorConfig(), tree.values, ())


def as_document(config: SelectorConfig) -> dict[str, Any]:
    """Return a configuration as plain data, as a file would give it."""
    document: dict[str, Any] = _plain(asdict(config))
    return document


def _plain(value: Any) -> Any:
    """Return values as YAML and JSON have them."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return value.value if isinstance(value, StrEnum) else value


class _Reader:
    """Puts values of a file in place of defaults; names the line of what is wrong."""

    def __init__(self, path: Path, lines: Mapping[KeyPath, int]) -> None:
        self._path, self._lines = path, lines

    def filled(self, default: _T, body: object, key: KeyPath) -> _T:
        """Return a dataclass with the values of a mapping in place of its own."""
        if not isinstance(body, Mapping):
            raise self._error(key, f"want a mapping, got {body!r}")
        known = {one.name: getattr(default, one.name) for one in fields(default)}  # type: ignore[arg-type]
        found = {}
        for name, value in body.items():
            if name not in known:
                raise self._error((*key, name), f"unknown key; known are {', '.join(known)}")
            found[name] = self._value(known[name], value, (*key, name))
        return replace(default, **found)  # type: ignore[type-var]

    def _value(self, default: object, value: object, key: KeyPath) -> object:
        if hasattr(default, "__dataclass_fields__"):
            return self.filled(default, value, key)
        if isinstance(default, StrEnum):
            known = type(default)
            if value not in list(known):
                raise self._error(key, f"want one of {', '.join(known)}, got {value!r}")
            return known(str(value))
        if isinstance(default, tuple):
            if not isinstance(value, list) or not value:
                raise self._error(key, f"want a list of numbers, got {value!r}")
            return tuple(self._value(1.0, one, key) for one in value)
        if isinstance(default, float) and value == ".inf":
            return inf
        if not _is_like(default, value):
            raise self._error(key, f"want {_WANTED[type(default)]}, got {value!r:.60}")
        return float(value) if isinstance(default, float) else value  # type: ignore[arg-type]

    def _error(self, key: KeyPath, problem: str) -> TrainError:
        # A list has a line, its values have none of their own.
        line = next(self._lines[key[:n]] for n in range(len(key), -1, -1) if key[:n] in self._lines)
        name = f"{'.'.join(key)}: " if key else ""
        return TrainError(f"{self._path}:{line}: {name}{problem}")


_WANTED: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number of 0 or more",
    float: "a number of 0 or more",
    str: "a text",
}


def _is_like(default: object, value: object) -> bool:
    """Return whether a value has the type of the default; numbers are finite and not negative."""
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float) and 0 <= value <= _LARGEST
    if isinstance(default, int):
        return isinstance(value, int) and 0 <= value <= _LARGEST
    return isinstance(value, str)
