"""The pairs of the H200 that ship with Roost."""

import numpy as np
import pytest

from roost_engine.prediction.interference.interference_vector import COLUMN, MASK
from roost_train.interference.measured_pairs import ALONE, PAIRS, read_measured
from roost_train.interference.pairs import Pairs, family_of


def test_every_pair_is_there_both_ways() -> None:
    pairs = read_measured()

    assert len(pairs) == 266
    assert len({family_of(job) for job in pairs.a}) == 9
    assert {job.gpu_type for job in pairs.a} == {"h200"}
    assert sorted(zip(pairs.a, pairs.b, strict=True)) == sorted(zip(pairs.b, pairs.a, strict=True))


def test_a_slowdown_is_that_of_the_speeds_in_the_tables() -> None:
    pairs = read_measured()

    # policy 64 alone 319.711 steps a second, 46.4911 beside cnn 256
    at = [
        i
        for i, (a, b) in enumerate(zip(pairs.a, pairs.b, strict=True))
        if (a.model, a.batch, b.model, b.batch) == ("policy", "64", "cnn", "256")
    ]
    assert pairs.slowdown[at] == pytest.approx([np.log(319.711 / 46.4911)])


def test_mps_makes_the_same_pairs_cheaper() -> None:
    plain, mps = _by_jobs(read_measured()), _by_jobs(read_measured(with_mps=True))

    both = plain.keys() & mps.keys()

    assert len(both) > 80
    assert np.mean([mps[key] for key in both]) < 0.6 * np.mean([plain[key] for key in both])


def test_vectors_have_the_columns_of_public_pairs_or_those_of_the_driver() -> None:
    public, driver = read_measured(), read_measured(with_loads=True)

    assert _known(public) == {"sm_mean", "step_time_mean"}
    assert _known(driver) == _known(public) | {
        "memory_mean",
        "memory_used_mean",
        "power_mean",
        "clock_mean",
    }
    assert public.slowdown.tolist() == driver.slowdown.tolist()


def test_the_tables_say_on_what_they_were_measured() -> None:
    for path in (ALONE, PAIRS):
        head = path.read_text(encoding="utf-8").split("\nmps,")[0]
        for word in ("NVIDIA H200", "driver 580", "torch 2", "2026-11-27", "measure_pairs.py"):
            assert word in head


def _by_jobs(pairs: Pairs) -> dict[object, float]:
    return dict(zip(zip(pairs.a, pairs.b, strict=True), pairs.slowdown.tolist(), strict=True))


def _known(pairs: Pairs) -> set[str]:
    masks = pairs.own[:, MASK]
    assert (masks == masks[0]).all()
    return {name for name, position in COLUMN.items() if masks[0, position]}
