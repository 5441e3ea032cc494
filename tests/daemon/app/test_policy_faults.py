"""Policies that fail in a daemon: the heuristic answers; the fault is counted and explained."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.daemon.running import Running, config, running

from roost_engine.domain.errors import PolicyError
from roost_engine.plugins.plugins import Plugins
from roost_engine.policies.protocols import GateVerdict, Offer, WaitEnded
from roost_engine.testing import builders
from roost_formats.journal.reader import JournalReader
from roost_proto.v1 import operator_pb2 as pb
from roostd.testing.slurm_stand_in import SlurmStandIn


class BrokenGate:
    """A gate that cannot judge offers."""

    name = "broken-gate"

    def decide(self, offer: Offer) -> GateVerdict:
        """See policies.GatePolicy."""
        raise PolicyError("the gate has a bug")

    def note(self, outcome: WaitEnded) -> None:
        """See policies.GatePolicy."""


class BrokenScore:
    """A model that is always too slow."""

    name = "broken-score"

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """See policies.ScorePolicy."""
        raise PolicyError("the model took 12 ms")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> SlurmStandIn:
    broken = {"gate": BrokenGate(), "score": BrokenScore()}
    monkeypatch.setattr(Plugins, "_with_gate", lambda _, policies: replace(policies, **broken))
    return SlurmStandIn([builders.node("n1")])


async def slots(daemon: Running) -> dict[str, pb.SlotPolicy]:
    async with daemon.operator() as operator:
        status = await operator.GetStatus(pb.GetStatusRequest())
    return {one.slot: one for one in status.slots}


async def test_faults_are_told_until_a_reload_makes_other_policies(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    settings = config(tmp_path)
    async with running(slurm, settings) as daemon:
        await daemon.until_running(*slurm.submit(gpus_per_node=1))
        before = await slots(daemon)
        engine = daemon.daemon.state.engine
        daemon.daemon.reload()
        await daemon.until(lambda: daemon.daemon.state.engine is not engine, "a new engine")
        after = await slots(daemon)

        assert daemon.count("roost_policy_faults_total", slot="gate") == 1
        assert daemon.count("roost_policy_fallbacks_total") == 1

    faults = {slot: (one.policy, one.fault_count, one.last_fault) for slot, one in before.items()}
    assert faults == {
        "order": ("priority", 0, ""),
        "gate": ("broken-gate", 1, "the gate has a bug"),
        "score": ("broken-score", 1, "the model took 12 ms"),
        "preemption": ("none", 0, ""),
        "run-times": ("history", 0, ""),
    }
    assert {(one.fault_count, one.last_fault) for one in after.values()} == {(0, "")}

    with closing(JournalReader(settings.paths.state_dir)) as reader:
        named = [dict(run.head.policies) for run in reader.runs()]
    assert named == [{slot: one.policy for slot, one in before.items()}] * 2
