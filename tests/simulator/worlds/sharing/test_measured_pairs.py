from itertools import product
from pathlib import Path

import pytest
from tests.simulator.measured import KINDS, pairs_file

from roost_sim.errors import PairsError
from roost_sim.worlds.sharing.measured_pairs import GPU_BYTES, Kind, read_pairs

LIGHT, HEAVY, BIG = Kind("light", ""), Kind("heavy", "8"), Kind("heavy", "64")


def test_each_kind_has_its_speed_beside_each_other_one(tmp_path: Path) -> None:
    pairs = read_pairs(pairs_file(tmp_path), "p100")
    assert len(pairs.kinds) == len(KINDS)
    assert pairs.families == ("heavy", "light", "mid")
    assert pairs.speed[LIGHT, HEAVY] == 0.9
    assert pairs.speed[HEAVY, LIGHT] == 0.88
    assert HEAVY.name == "heavy/8"
    assert LIGHT.name == "light"


def test_memory_says_just_which_pairs_fitted(tmp_path: Path) -> None:
    pairs = read_pairs(pairs_file(tmp_path), "p100")
    assert (BIG, BIG) not in pairs.speed
    for a, b in product(pairs.kinds, pairs.kinds):
        fits = pairs.memory_bytes[a] + pairs.memory_bytes[b] <= GPU_BYTES
        assert fits is ((a, b) in pairs.speed)


def test_a_batch_fills_the_gpu_by_its_samples_per_second(tmp_path: Path) -> None:
    pairs = read_pairs(pairs_file(tmp_path), "p100")
    assert pairs.alone[BIG].fill_frac == 1.0
    assert pairs.alone[HEAVY].fill_frac == pytest.approx(8 / 64)
    assert pairs.alone[LIGHT].fill_frac == 1.0
    assert pairs.alone[LIGHT].step_s == pytest.approx(0.5)


def test_a_speed_above_one_is_noise(tmp_path: Path) -> None:
    pairs = read_pairs(pairs_file(tmp_path, {("light", "light"): 1.04}), "p100")
    assert pairs.speed[LIGHT, LIGHT] == 1.0


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("speed_ratio_a", "ratio", r"pairs.csv:1: no column speed_ratio_a"),
        ("p100,light,,light,,1,1,2.0,0.95,1\n", "", r"light beside light is missing"),
        ("2.0,0.95,1", "2.0,fast,1", r"pairs.csv:2: speed_ratio_a: want a number above 0"),
        ("2.0,0.95,1", "2.0,-1,1", r"pairs.csv:2: speed_ratio_a: want a number above 0"),
        ("light,,heavy,8,1,1,2.0,0.9,1", "light,,heavy,8,1,1,2.0,0.9,0", "is missing"),
        ("p100,heavy,8,heavy,8,", "p100,heavy,8,heavy,64,", "comes twice"),
        ("heavy,8", "heavy,eight", "want a batch size above 0, or none"),
        ("heavy,8", "heavy,0", "want a batch size above 0, or none"),
        ("heavy,8", "heavy,nan", "want a batch size above 0, or none"),
    ],
)  # fmt: skip
def test_a_bad_table_is_refused_with_file_line_and_cure(
    tmp_path: Path, before: str, after: str, what: str
) -> None:
    path = pairs_file(tmp_path)
    text = path.read_text(encoding="utf-8")
    assert before in text
    path.write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(PairsError, match=what):
        read_pairs(path, "p100")


def test_another_gpu_type_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(PairsError, match="no pair on 'v100'; there are p100"):
        read_pairs(pairs_file(tmp_path), "v100")
    with pytest.raises(PairsError, match="No such file"):
        read_pairs(tmp_path / "none.csv", "p100")


def test_memory_that_explains_no_table_is_refused(tmp_path: Path) -> None:
    # light and heavy/8 do not fit beside each other, but both fit beside themselves and all others
    path = pairs_file(tmp_path)
    text = path.read_text(encoding="utf-8")
    for pair in ("light,,heavy,8,1,1,2.0,0.9,1", "heavy,8,light,,1,1,2.0,0.88,1"):
        text = text.replace(pair, pair[:-1] + "0")
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PairsError, match="no memory of each kind explains fits_in_memory"):
        read_pairs(path, "p100")
