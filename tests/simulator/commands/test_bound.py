"""`roost-sim bound`: the bound of a small trace by hand."""

from pathlib import Path

import pytest
from tests.simulator.program import document, run


def test_bound_of_a_trace(trace: Path, cluster: Path) -> None:
    figures = document(run("bound", "--trace", trace, "--cluster", cluster, "--json"))
    # Each needs every GPU: 1 until 10, 2 until 20, 3 until 60, 2 until 130, 1 until 220.
    assert figures["jobs"] == 3
    assert figures["gpus"] == 8
    assert figures["bound_avg_jct_s"] == pytest.approx((220 + 120 + 40) / 3)


def test_the_bound_as_text(trace: Path, cluster: Path) -> None:
    result = run("bound", "--trace", trace, "--cluster", cluster)
    assert result.stdout.split() == ["jobs", "3", "gpus", "8", "bound_avg_jct_s", "126.667"]
