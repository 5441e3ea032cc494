"""slurm_faults: each fault meets one call of its operation, in turn."""

import pytest

from roost_engine.domain.errors import SlurmRefused, SlurmTimeout
from roostd.testing.slurm_faults import Fault, Faults


def test_faults_meet_the_calls_of_their_operation_in_turn() -> None:
    faults = Faults()
    faults.add("pin", Fault.REFUSED, Fault.LOST_BEFORE, Fault.LOST_AFTER)
    assert not faults.meet("renew", ("scontrol",))
    with pytest.raises(SlurmRefused):
        faults.meet("pin", ("scontrol",))
    with pytest.raises(SlurmTimeout):
        faults.meet("pin", ("scontrol",))
    assert faults.meet("pin", ("scontrol",))
    assert not faults.meet("pin", ("scontrol",))
