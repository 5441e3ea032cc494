"""A small table of measured pairs for tests: five kinds of three families of models."""

from collections.abc import Mapping
from itertools import product
from pathlib import Path

HEAD = (
    "gpu_type,model_a,batch_a,model_b,batch_b,steps_per_s_a_colocated,steps_per_s_b_colocated,"
    "steps_per_s_a_isolated,speed_ratio_a,fits_in_memory"
)
KINDS = (("light", ""), ("heavy", "8"), ("heavy", "64"), ("mid-1", "4"), ("mid-2", "4"))
SPEEDS: Mapping[tuple[str, str], float] = {
    ("light", "light"): 0.95,
    ("light", "heavy"): 0.9,
    ("heavy", "light"): 0.88,
    ("heavy", "heavy"): 0.5,
}
"""By the families of a job and of the one beside it; 0.7 for all others."""
TOO_BIG = ("heavy", "64")  # does not fit beside itself


def pairs_file(folder: Path, speeds: Mapping[tuple[str, str], float] = SPEEDS) -> Path:
    """Write a table of all pairs of KINDS on a p100."""
    lines = [HEAD]
    for a, b in product(KINDS, KINDS):
        speed = speeds.get((a[0].split("-")[0], b[0].split("-")[0]), 0.7)
        fits = int((a, b) != (TOO_BIG, TOO_BIG))
        text = f"{speed}" if fits else ""
        lines.append(f"p100,{a[0]},{a[1]},{b[0]},{b[1]},1,1,2.0,{text},{fits}")
    path = folder / "pairs.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
