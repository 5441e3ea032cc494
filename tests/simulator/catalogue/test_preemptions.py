"""Preemption rules by name: what each is built from, and migration added by name."""

import pytest

from roost_engine.policies.heuristics import NoPreemption
from roost_engine.policies.preemption_protocols import (
    JudgingPreemption,
    MovingPreemption,
)
from roost_engine.preemption.rules import DisplaceBy, Leases
from roost_sim.catalogue.preemptions import PREEMPTIONS
from roost_sim.information.policy_information import PolicyInformation
from roost_sim.policies.preemption.preemption_rules import TimeSlices
from roost_sim.worlds.fidelity import Regime

NO_INFORMATION = PolicyInformation(work_s={}, seed=0)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", NoPreemption),
        ("srtf", DisplaceBy),
        ("las", DisplaceBy),
        ("leases", Leases),
        ("time-slices", TimeSlices),
    ],
)
def test_a_name_is_a_rule(name: str, kind: type) -> None:
    assert isinstance(PREEMPTIONS[name].build(NO_INFORMATION), kind)


def test_only_rules_with_migration_move_jobs() -> None:
    movers = {
        name
        for name, part in PREEMPTIONS.items()
        if isinstance(part.build(NO_INFORMATION), MovingPreemption)
    }
    named = {name for name in PREEMPTIONS if name.endswith("-moves")}
    assert movers == named | {"time-slices", "network"}  # `network` moves no job unless told to


def test_migration_keeps_a_rules_judgement_of_plans() -> None:
    for name in ("srtf-pays", "srtf-pays-moves"):
        assert isinstance(PREEMPTIONS[name].build(NO_INFORMATION), JudgingPreemption)
    assert not isinstance(PREEMPTIONS["las-moves"].build(NO_INFORMATION), JudgingPreemption)


def test_rules_that_need_remaining_work_say_so() -> None:
    oracles = {name for name, part in PREEMPTIONS.items() if part.regime is Regime.ORACLE}
    assert {"srtf", "srsf", "srtf-pays", "srtf-moves"} <= oracles
    assert not {"none", "las", "tiresias", "leases"} & oracles
