"""options: what a score model reads of candidates that stand for many."""

from dataclasses import replace

import numpy as np
import pytest

from roost_engine.cluster.features import COLUMN, COLUMNS
from roost_engine.cluster.link_table import LOAD_COLUMN_COUNT, LOAD_COLUMNS, LinkTable
from roost_engine.domain.tier import Tier
from roost_engine.placement.options import (
    GangOption,
    Load,
    NodeOption,
    Part,
    gang_features,
    node_features,
)
from roost_engine.testing.builders import bridges, nvswitch

BRIDGED, SWITCHED = LinkTable(bridges(8)), LinkTable(nvswitch(8))
TABLES = (BRIDGED, SWITCHED)
KNOWN = COLUMN["load_known_frac"]
STATIC = slice(0, 5)


def load(*values: float, known_frac: float = 0.75) -> Load:
    """The load around each candidate, the same in every column."""
    around = np.repeat(np.array([values], dtype=np.float32).T, LOAD_COLUMN_COUNT, axis=1)
    return Load(around, known_frac)


def gang(*parts: Part, tier: Tier = Tier.RACK, around: Load | None = None) -> GangOption:
    return GangOption(tuple(range(len(parts))), parts, tier, around)


def test_a_node_option_has_a_row_for_each_subset_in_the_order_of_options() -> None:
    pairs = NodeOption(0b1, 0, BRIDGED.choice(0b1111, 2))
    single = NodeOption(0b10, 0, BRIDGED.choice(0b1, 1))
    assert (len(pairs.choice.masks), len(single.choice.masks)) == (2, 1)
    features = node_features([single, pairs])
    assert features.shape == (3, len(COLUMNS))
    assert features.dtype == np.float32
    assert features[0, STATIC].tolist() == single.choice.static[0].tolist()
    assert features[1:, STATIC].tolist() == pairs.choice.static.tolist()


def test_load_reaches_only_the_subsets_of_its_option() -> None:
    choice = BRIDGED.choice(0b1111, 2)
    features = node_features(
        [
            NodeOption(0b01, 0, choice),
            NodeOption(0b10, 0, choice, load(0.25, 0.5)),
            NodeOption(0b100, 0, choice),
        ]
    )
    assert features[:, LOAD_COLUMNS.start].tolist() == [0.0, 0.0, 0.25, 0.5, 0.0, 0.0]
    assert features[:, LOAD_COLUMNS.stop - 1].tolist() == [0.0, 0.0, 0.25, 0.5, 0.0, 0.0]
    assert features[:, KNOWN].tolist() == [0.0, 0.0, 0.75, 0.75, 0.0, 0.0]


def test_the_features_of_a_gang_on_equal_nodes_are_those_of_one_node_but_for_the_tier() -> None:
    part = (0, 0b1111, 0b0011)
    features = gang_features([gang(part, part), gang(part, part, tier=Tier.CLUSTER)], TABLES)
    one_node = BRIDGED.part(0b1111, 0b0011)[0]
    assert features.shape == (2, len(COLUMNS))
    assert features[:, COLUMN["tier_frac"]].tolist() == [0.5, 1.0]
    others = [column for column in range(5) if column != COLUMN["tier_frac"]]
    for row in features:
        assert row[others].tolist() == one_node[others].tolist()
        assert not row[LOAD_COLUMNS].any()
    # Of 8 GPUs, 2 of the 4 free ones stay free; bridge 0-1 is the best pair that there is.
    assert features[0, COLUMN["leftover_frac"]] == 0.25
    assert features[0, COLUMN["link_best_frac"]] == 1.0


def test_the_features_of_a_gang_are_the_means_over_nodes_of_several_kinds() -> None:
    mixed = gang((0, 0xFF, 0b101), (1, 0b111, 0b101))
    alone = [BRIDGED.part(0xFF, 0b101)[0], SWITCHED.part(0b111, 0b101)[0]]
    (features,) = gang_features([mixed], TABLES)
    for name in ("link_frac", "link_best_frac", "fragmentation_frac"):
        column = COLUMN[name]
        assert alone[0][column] != alone[1][column]
        expected = (alone[0][column] + alone[1][column]) / 2
        assert features[column] == pytest.approx(expected)
    assert features[COLUMN["leftover_frac"]] == pytest.approx((6 / 8 + 1 / 8) / 2)


def test_load_reaches_only_its_own_gang() -> None:
    part = (0, 0xFF, 0b11)
    plain, loaded = gang(part, part), gang(part, part, around=load(0.5, known_frac=1.0))
    features = gang_features([plain, loaded, plain], TABLES)
    assert features[:, LOAD_COLUMNS.start].tolist() == [0.0, 0.5, 0.0]
    assert features[:, LOAD_COLUMNS.stop - 1].tolist() == [0.0, 0.5, 0.0]
    assert features[:, KNOWN].tolist() == [0.0, 1.0, 0.0]


def test_gangs_with_one_key_have_the_same_features_on_any_nodes() -> None:
    part, other = (0, 0xFF, 0b11), (0, 0xFF, 0b1100)
    here = gang(part, part)
    assert here.key == replace(here, nodes=(5, 7)).key
    assert here.key != gang(part, other).key
    assert here.key != gang(part, part, tier=Tier.CLUSTER).key
