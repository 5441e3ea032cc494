"""A composition: what its parts make of the engine's numbers, and a model that cannot be loaded."""

import re

import pytest
from tests.simulator.hand_worked import NO_INFORMATION

from roost_engine.engine import EngineConfig
from roost_sim.catalogue.compositions import find_policy
from roost_sim.errors import SimError


def test_agents_may_be_kept_from_forwarding() -> None:
    shared, alone = (
        find_policy(f"fifo+consolidation-4{end}").engine_config(EngineConfig())
        for end in ("", "-alone")
    )
    assert (shared.agents, shared.forwards) == (4, True)
    assert (alone.agents, alone.forwards) == (4, False)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("fifo+strict+model:/none.onnx", "/none.onnx: none.json cannot be read"),
        ("fifo+strict+patient-model:", "names no file of its model; want model:FILE"),
        ("selector:/none.onnx+strict", "/none.onnx: none.json cannot be read"),
        ("fifo+consolidation:/none.onnx", "/none.onnx: none.json cannot be read"),
    ],
)
def test_a_model_that_cannot_be_loaded_is_named(name: str, complaint: str) -> None:
    with pytest.raises(SimError, match=re.escape(complaint)):
        find_policy(name).build(NO_INFORMATION)
