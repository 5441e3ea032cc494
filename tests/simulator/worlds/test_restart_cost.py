"""What a restart costs."""

import pytest

from roost_sim.worlds.restart_cost import RestartRule, restart_s


def test_a_restart_loads_the_checkpoint() -> None:
    # VGG-16: 3 copies of 553 MB written and read at 1 GB/s are 3.32 s.
    assert restart_s(RestartRule.MEASURED, "vgg16", 8) == pytest.approx(40 + 6 * 0.553430176)
    assert restart_s(RestartRule.MEASURED, "ncf", 9) == 60.0
    assert restart_s(RestartRule.DALLY, "vgg16", 9) == 9.0
    assert restart_s(RestartRule.FREE, "vgg16", 9) == 0.0
