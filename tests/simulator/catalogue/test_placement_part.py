"""A placement rule of the catalogue: a model that scores its places."""

from pathlib import Path

import pytest
from tests.simulator.placing import NO_INFORMATION

from roost_engine.plugins.stacks import PlacementKind
from roost_sim.catalogue.placement_part import of_roostd, scored_by
from roost_sim.errors import SimError
from roost_sim.traces.shapes import every_even_shape


def test_a_model_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    part = of_roostd(PlacementKind.STRICT, "waits", every_even_shape)
    path = tmp_path / "mine.onnx"
    path.write_bytes(b"no model")
    other = scored_by(part, str(path))
    assert (other.kind, other.model) == (PlacementKind.STRICT, str(path))
    assert other.source == "waits; scored by mine.onnx"
    with pytest.raises(SimError, match=r"mine\.onnx: "):
        other.score(NO_INFORMATION)
