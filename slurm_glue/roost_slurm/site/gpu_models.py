"""Short names of GPU models: what users write in `--gres=gpu:a100:2`, and Slurm's node features."""

import re

_NOISE = frozenset({"nvidia", "tesla", "geforce", "quadro", "titan"})
_FAMILIES = frozenset({"rtx", "gtx"})
_WORD = re.compile(r"[a-z0-9.]+")


def short_name(model: str) -> str:
    """Shorten a driver's name of a model: "NVIDIA A100-SXM4-80GB" is "a100".

    roostd, the Lua script and the node features must agree on it. A site that distinguishes
    memory sizes of one model sets its own names (`roost-slurm config --model`).

    Raises:
        ValueError: nothing is left of the name.
    """
    words: list[str] = [word for word in _WORD.findall(model.lower()) if word not in _NOISE]
    if not words:
        raise ValueError(f"no short name for GPU model {model!r}")
    first, *rest = words
    if first in _FAMILIES and rest:
        # "RTX A6000" is known as A6000, "RTX 3090" only by both words.
        return first + rest[0] if rest[0][0].isdigit() else rest[0]
    return first
