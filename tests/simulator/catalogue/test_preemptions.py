"""Preemption rules by name: what each is built from, and migration added by name."""

import re

import pytest

from roost_engine.policies.heuristics import NoPreemption
from roost_engine.policies.preemption_protocols import (
    JudgingPreemption,
    MovingPreemption,
)
from roost_engine.preemption.rules import DisplaceBy, Leases
from roost_engine.testing.builders import job, waiting
from roost_sim.catalogue.compositions import find_policy
from roost_sim.catalogue.preemptions import PREEMPTIONS, LeaseError, preemption_part
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


@pytest.mark.parametrize(
    "kind", ["las-moves", "las-closer-moves", "learned-moves", "known-left-moves", "leases"]
)
def test_a_name_may_carry_another_lease(kind: str) -> None:
    part = preemption_part(f"{kind}:900")
    assert part.numbers is not None
    assert getattr(part.numbers(NO_INFORMATION), "lease_s", None) == 900.0
    assert part.build(NO_INFORMATION).lease_s(waiting(job("1"))) == 900.0
    assert part.regime is PREEMPTIONS[kind].regime
    assert preemption_part(kind) is PREEMPTIONS[kind]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("las-moves:long", "las-moves:long: want seconds after the colon, got 'long'"),
        ("las-moves:", "las-moves:: want seconds after the colon, got ''"),
        ("leases:inf", "leases:inf: want seconds above 0 after the colon, got 'inf'"),
        ("leases:nan", "leases:nan: want seconds above 0 after the colon, got 'nan'"),
        ("leases:0", "leases:0: want seconds above 0 after the colon, got '0'"),
        ("srsf:9", "srsf:9: rule srsf has no lease to replace"),
    ],
)
def test_a_lease_that_cannot_be_used_is_refused(name: str, problem: str) -> None:
    with pytest.raises(LeaseError, match=re.escape(problem)):
        find_policy(f"las+strict+open+{name}")


def test_rules_that_need_remaining_work_say_so() -> None:
    oracles = {name for name, part in PREEMPTIONS.items() if part.regime is Regime.ORACLE}
    assert {"srtf", "srsf", "srtf-pays", "srtf-moves"} <= oracles
    assert not {"none", "las", "tiresias", "leases"} & oracles
