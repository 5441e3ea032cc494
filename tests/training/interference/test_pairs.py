import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.training.interference_tables import write_tables

from roost_train.errors import BadTable
from roost_train.interference.pairs import (
    GAVEL_PAIRS,
    Pairs,
    Split,
    family_of,
    parts_of,
    read_pairs,
)
from roost_train.interference.public import PublicJob


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return read_pairs(write_tables(tmp_path))


def test_pairs_that_never_ran_are_left_out(pairs: Pairs) -> None:
    assert len(pairs) == 2 * 8 * 8
    assert (pairs.slowdown >= 0).all()
    assert pairs.cases().level("gpu")[:, -1].tolist() == [1.0] * len(pairs)


def test_both_orders_of_a_pair_are_on_one_side(pairs: Pairs) -> None:
    for learned, judged in parts_of(Split.PAIRS, pairs):
        assert (learned ^ judged).all()
        inside = {(pairs.a[i], pairs.b[i]) for i in np.flatnonzero(judged).tolist()}
        assert {(b, a) for a, b in inside} == inside


def test_an_unseen_family_is_in_no_pair_that_is_learned_from(pairs: Pairs) -> None:
    parts = parts_of(Split.FAMILY, pairs)
    assert len(parts) == 4
    for learned, judged in parts:
        known = {family_of(job) for jobs in (pairs.a, pairs.b) for job in _some(jobs, learned)}
        sides = zip(_some(pairs.a, judged), _some(pairs.b, judged), strict=True)
        assert all({family_of(a), family_of(b)} - known for a, b in sides)


def _some(jobs: Sequence[PublicJob], chosen: NDArray[np.bool_]) -> list[PublicJob]:
    return [jobs[at] for at in np.flatnonzero(chosen).tolist()]


def test_an_unseen_gpu_type_is_not_learned_from(pairs: Pairs) -> None:
    for learned, judged in parts_of(Split.GPU, pairs):
        types = [
            {pairs.a[i].gpu_type for i in np.flatnonzero(side).tolist()}
            for side in (learned, judged)
        ]
        assert types[0].isdisjoint(types[1])


def test_a_pair_whose_speed_alone_is_unknown_is_refused(tmp_path: Path) -> None:
    path = write_tables(tmp_path) / GAVEL_PAIRS
    path.write_text(path.read_text() + "v100,LM,5,LM,5,1,1,1,0.5,1\n")
    with pytest.raises(BadTable, match=r"v100.*has no speed alone"):
        read_pairs(tmp_path)


def test_a_table_without_pairs_is_refused(tmp_path: Path) -> None:
    path = write_tables(tmp_path) / GAVEL_PAIRS
    path.write_text(path.read_text().split("\n")[0] + "\n")
    with pytest.raises(BadTable, match="no pair ran"):
        read_pairs(tmp_path)
