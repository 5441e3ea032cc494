"""Which of two probes that name the same node is believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import GpuUuid
from roostd.telemetry.claim import Claim, may_take_over

KNOWN = frozenset({GpuUuid("GPU-1"), GpuUuid("GPU-2")})
STRANGER = Claim(gpu_uuids=frozenset({GpuUuid("GPU-9")}))
DRIVERLESS = Claim()
ONE_REPLACED = Claim(gpu_uuids=frozenset({GpuUuid("GPU-2"), GpuUuid("GPU-9")}))
KNOWN_GPUS = Claim(gpu_uuids=KNOWN)
CERTIFIED = Claim(has_certificate=True, gpu_uuids=frozenset({GpuUuid("GPU-9")}))
BEST = Claim(has_certificate=True, gpu_uuids=KNOWN)
CLAIMS = st.sampled_from([STRANGER, DRIVERLESS, ONE_REPLACED, KNOWN_GPUS, CERTIFIED, BEST])
PATIENCE_S = 3.0


@pytest.mark.parametrize(
    ("claim", "holder", "wins"),
    [
        (CERTIFIED, KNOWN_GPUS, True),  # a certificate beats none
        (KNOWN_GPUS, CERTIFIED, False),
        (KNOWN_GPUS, STRANGER, True),  # GPUs that the node had beat others
        (ONE_REPLACED, STRANGER, True),
        (STRANGER, KNOWN_GPUS, False),
        (BEST, CERTIFIED, True),
        (STRANGER, DRIVERLESS, False),
        (KNOWN_GPUS, DRIVERLESS, True),
        (KNOWN_GPUS, ONE_REPLACED, False),
    ],
)
def test_the_better_right_wins_at_once(claim: Claim, holder: Claim, wins: bool) -> None:
    assert may_take_over(claim, holder, KNOWN, 0.0, PATIENCE_S) is wins


@given(CLAIMS, CLAIMS)
def test_a_silent_probe_gives_way_to_any(claim: Claim, holder: Claim) -> None:
    assert may_take_over(claim, holder, KNOWN, PATIENCE_S + 0.1, PATIENCE_S)


@given(CLAIMS, CLAIMS)
def test_two_probes_never_take_over_from_each_other_in_turns(one: Claim, other: Claim) -> None:
    forth = may_take_over(one, other, KNOWN, 0.0, PATIENCE_S)
    back = may_take_over(other, one, KNOWN, 0.0, PATIENCE_S)
    assert not (forth and back)


@given(CLAIMS)
def test_a_twin_of_the_same_right_waits_for_silence(claim: Claim) -> None:
    assert not may_take_over(claim, claim, KNOWN, PATIENCE_S, PATIENCE_S)
