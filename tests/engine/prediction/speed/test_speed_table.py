"""speed_table: the speeds of a model on a number of GPUs, and those of a job that names none."""

import pytest

from roost_engine.domain.tier import Tier
from roost_engine.prediction.speed.speed_table import ModelSpeeds, TableOfSpeeds
from roost_engine.prediction.speed.tier_speeds import UNKNOWN_SPEEDS, TierSpeeds

ALONE = TierSpeeds(1.0, 1.0, 1.0)


def line(model: str, gpu_count: int, node: float, rack: float, across: float) -> ModelSpeeds:
    return ModelSpeeds(model=model, gpu_count=gpu_count, speeds=TierSpeeds(node, rack, across))


def test_a_model_is_found_whatever_the_case_of_its_name() -> None:
    table = TableOfSpeeds((line("Bert-Large", 8, 1.0, 0.8, 0.5),))
    for name in ("Bert-Large", "bert-large", "BERT-LARGE"):
        assert table.speeds(name, 8) == TierSpeeds(1.0, 0.8, 0.5)
    assert table.speeds("bert", 8) is None
    assert table.speeds("", 8) is None


@pytest.mark.parametrize(
    ("gpu_count", "row"), [(1, 4), (2, 4), (4, 4), (7, 4), (8, 4), (9, 16), (16, 16), (1024, 16)]
)
def test_a_number_of_gpus_that_is_missing_takes_the_nearest_ratio(gpu_count: int, row: int) -> None:
    """8 is twice 4 and half of 16: the smaller of the two counts."""
    for order in (1, -1):
        rows = (line("a", 4, 1.0, 0.9, 0.8), line("a", 16, 1.0, 0.5, 0.4))[::order]
        expected = {one.gpu_count: one.speeds for one in rows}[row]
        assert TableOfSpeeds(rows).speeds("a", gpu_count) == expected


def test_typical_is_the_median_of_all_models_tier_by_tier() -> None:
    table = TableOfSpeeds(
        (
            line("a", 8, 1.0, 0.9, 0.1),
            line("b", 8, 1.0, 0.7, 0.7),
            line("c", 8, 1.0, 0.2, 0.2),
        )
    )
    assert table.typical(8) == TierSpeeds(1.0, 0.7, 0.2)


def test_typical_compares_speeds_relative_to_one_node() -> None:
    table = TableOfSpeeds((line("a", 8, 0.5, 0.4, 0.1), line("b", 8, 1.0, 0.6, 0.4)))
    found = table.typical(8)
    assert found.at(Tier.NODE) == 1.0
    assert found.at(Tier.RACK) == pytest.approx((0.8 + 0.6) / 2)
    assert found.at(Tier.CLUSTER) == pytest.approx((0.2 + 0.4) / 2)


def test_typical_takes_the_nearest_line_of_each_model() -> None:
    table = TableOfSpeeds(
        (line("a", 2, 1.0, 0.9, 0.9), line("a", 64, 1.0, 0.1, 0.1), line("b", 8, 1.0, 0.5, 0.5))
    )
    assert table.typical(2) == TierSpeeds(1.0, 0.7, 0.7)
    assert table.typical(64) == TierSpeeds(1.0, 0.3, 0.3)
    assert table.typical(2) == TierSpeeds(1.0, 0.7, 0.7)  # remembered by number of GPUs


def test_a_job_of_one_gpu_loses_nothing_and_an_empty_table_knows_nothing() -> None:
    assert TableOfSpeeds((line("a", 8, 1.0, 0.5, 0.5),)).typical(1) == ALONE
    assert TableOfSpeeds(()).typical(1) == ALONE
    assert TableOfSpeeds(()).typical(8) == UNKNOWN_SPEEDS
