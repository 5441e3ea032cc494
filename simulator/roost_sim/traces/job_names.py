"""Job names for generated traces: plausible, different, and no user's."""

import numpy as np

_ACTIONS = ("train", "eval", "finetune", "pretrain", "test", "run", "debug", "extract")
_THINGS = (
    *("resnet", "bert", "yolo", "gan", "vit", "lstm", "seg", "pose", "detect", "face"),
    *("ocr", "speech", "nas", "rl", "video", "point", "depth", "track", "reid", "distill"),
)


def job_names(count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Return different names; most of them share their beginning with others, as users name jobs.

    Example: train-resnet-7, the seventh name that begins so.
    """
    actions = rng.integers(len(_ACTIONS), size=count).tolist()
    things = rng.integers(len(_THINGS), size=count).tolist()
    numbers: dict[str, int] = {}
    names = list[str]()
    for action, thing in zip(actions, things, strict=True):
        begin = f"{_ACTIONS[action]}-{_THINGS[thing]}"
        numbers[begin] = numbers.get(begin, 0) + 1
        names.append(f"{begin}-{numbers[begin]}")
    return tuple(names)
