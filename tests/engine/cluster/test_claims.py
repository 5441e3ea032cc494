"""claims: a GPU is free when it has no holder left."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.cluster.claims import Claims
from roost_engine.cluster.link_table import mask_of

SETS = st.frozensets(st.integers(0, 7), max_size=8)


@given(st.lists(st.tuples(st.integers(0, 1), SETS), max_size=12), st.randoms())
def test_a_gpu_is_claimed_while_it_has_a_holder(
    holders: list[tuple[int, frozenset[int]]], random: Random
) -> None:
    claims, counts = Claims(), [[0] * 8, [0] * 8]
    claims.add_node()
    claims.add_node()
    for node, gpus in holders:
        claims.add(node, mask_of(tuple(sorted(gpus))))
        for gpu in gpus:
            counts[node][gpu] += 1
        claims.check(counts)
    random.shuffle(holders)
    for node, gpus in holders:
        claims.remove(node, mask_of(tuple(sorted(gpus))))
        for gpu in gpus:
            counts[node][gpu] -= 1
        claims.check(counts)
        claimed = tuple(gpu for gpu, count in enumerate(counts[node]) if count)
        assert claims.masks[node] == mask_of(claimed)
    assert claims.masks == [0, 0]


def test_a_drift_is_noticed() -> None:
    claims = Claims()
    claims.add_node()
    claims.add(0, 0b11)
    for counts in ([1, 0], [2, 1]):
        with pytest.raises(AssertionError, match="GPU holders drifted"):
            claims.check([counts])
