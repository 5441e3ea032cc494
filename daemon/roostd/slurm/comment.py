"""What users state about a job: one word of its comment, `roost:model=bert,checkpoint=600`.

The other words of a comment belong to the site. What cannot be used is ignored, and `roostctl
explain` shows why: a comment never keeps a job from running. Page: docs/preemption.md.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from roost_slurm.text.tres import parse_memory_bytes

_OURS = re.compile(r"(?:^|(?<=\s))roost:(\S*)")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+/-]{0,63}", re.ASCII)
_SECONDS = re.compile(r"\d{1,9}(?:\.\d{1,6})?", re.ASCII)
_KEYS = ("model", "checkpoint", "share", "memory")
_MEMORY = re.compile(r"\d{1,6}[MG]", re.ASCII)
_MOST_PROBLEMS = 8
_SHOWN_LETTERS = 40
_LONGEST_WORD = 1_000  # an argument of sbatch may have 131,072 characters, all of them commas


@dataclass(frozen=True, slots=True)
class JobComment:
    """What a comment states.

    Attributes:
        model: the model that the job trains, by its name in the speed profiles; "" if not stated.
        checkpoint_s: seconds between two checkpoints, from the last of which the job continues
            when it is stopped and started again; None if not stated.
        problems: what could not be used, and why, one text each.
        shares_gpus: whether another job may run on its GPUs beside it; None if not stated.
        gpu_memory_bytes: of each of its GPUs, that it needs at most; 0 if not stated.
    """

    model: str = ""
    checkpoint_s: float | None = None
    problems: tuple[str, ...] = ()
    shares_gpus: bool | None = None
    gpu_memory_bytes: int = 0


@lru_cache(maxsize=20_000)
def parse_comment(text: str) -> JobComment | None:
    """Read a comment; None where it has no `roost:` word."""
    words = _OURS.findall(text)
    if not words:
        return None
    problems = [] if len(words) == 1 else [f"it says roost: {len(words)} times; the last counts"]
    given = dict[str, str]()
    if len(words[-1]) > _LONGEST_WORD:
        problems.append(f"its roost: word has more than {_LONGEST_WORD} letters: not read")
        return JobComment(problems=tuple(problems))
    for pair in words[-1].split(","):
        key, equals, value = pair.partition("=")
        if not equals:
            problems.append(
                f"{_shown(pair)}: want KEY=VALUE, as in roost:model=bert,checkpoint=600"
            )
        elif key not in _KEYS:
            problems.append(f"{_shown(key)}: unknown key, {_hint(key)}")
        else:
            if key in given:
                problems.append(f"{key}: given twice; the last counts")
            given[key] = value
    return JobComment(
        model=_model(given, problems),
        checkpoint_s=_checkpoint_s(given, problems),
        shares_gpus=_shares_gpus(given, problems),
        gpu_memory_bytes=_gpu_memory_bytes(given, problems),
        problems=tuple(problems[:_MOST_PROBLEMS]),
    )


def _model(given: Mapping[str, str], problems: list[str]) -> str:
    model = given.get("model")
    if model is None or _MODEL.fullmatch(model):
        return model or ""
    problems.append(f"model: want a name of letters, digits and _ . + / -, got {_shown(model)}")
    return ""


def _checkpoint_s(given: Mapping[str, str], problems: list[str]) -> float | None:
    text = given.get("checkpoint")
    if text is None:
        return None
    seconds = float(text) if _SECONDS.fullmatch(text) else 0.0
    if seconds > 0:
        return seconds
    problems.append(f"checkpoint: want seconds above 0, such as 600, got {_shown(text)}")
    return None


def _shares_gpus(given: Mapping[str, str], problems: list[str]) -> bool | None:
    answer = given.get("share")
    if answer not in ("yes", "no", None):
        problems.append(f"share: want yes or no, got {_shown(answer)}")
    return None if answer is None else answer == "yes"


def _gpu_memory_bytes(given: Mapping[str, str], problems: list[str]) -> int:
    text = given.get("memory")
    if text is None:
        return 0
    if _MEMORY.fullmatch(text) and (size_bytes := parse_memory_bytes(text)):
        return size_bytes
    problems.append(f"memory: want a size of GPU memory such as 20G, got {_shown(text)}")
    return 0


def _hint(key: str) -> str:
    close = get_close_matches(key, _KEYS, n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(_KEYS)}"


def _shown(text: str) -> str:
    """Return a user's text for a message: quoted, shortened, without control characters."""
    cut = text[:_SHOWN_LETTERS] + ("..." if len(text) > _SHOWN_LETTERS else "")
    return repr(cut)
