"""Sizes of models and their skew."""

import pytest

from roost_sim.worlds.model_sizes import size_of


def test_skew_and_size_by_hand() -> None:
    vgg = size_of("vgg16")
    assert vgg is not None
    assert vgg.gradient_bytes == 138_357_544 * 4
    assert vgg.skew_frac == pytest.approx(102_760_448 / 138_357_544)
    assert size_of("ncf") is None
