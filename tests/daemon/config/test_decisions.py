"""Sections of the configuration as the decision core takes them."""

from math import inf

import pytest
from pydantic import ValidationError

from roost_engine.gate.dally import DallyConfig
from roost_engine.gate.delay import DelayConfig
from roost_engine.plugins.stacks import GateKind, PreemptionKind
from roost_engine.preemption.network_preemption import NetworkPreemptionConfig
from roost_engine.preemption.rules import KnownLeftMovesConfig, LasMovesConfig, LeasesConfig
from roostd.config.decisions import EngineSection, GateSection, PreemptionSection


def test_an_open_gate_has_no_configuration_and_numbers_of_the_delay_gate_do_not_count() -> None:
    assert GateSection().to_core(GateKind.OPEN) is None
    section = GateSection.model_validate({"delay_weight": 3.0})
    assert section.to_core(GateKind.OPEN) is None


def test_a_dally_gate_takes_the_authors_numbers() -> None:
    section = GateSection.model_validate({"kind": "dally", "delay_weight": 3.0})
    assert section.to_core(GateKind.DALLY) == DallyConfig()


def test_a_delay_gate_hands_the_numbers_of_its_timers_to_the_timers() -> None:
    section = GateSection.model_validate(
        {"kind": "delay", "limit_frac": 0.25, "window_count": 7, "prior_wait_s": 60.0}
    )

    core = section.to_core(GateKind.DELAY)

    assert isinstance(core, DelayConfig)
    assert core.limit_frac == 0.25
    assert (core.timers.window_count, core.timers.prior_wait_s) == (7, 60.0)


@pytest.mark.parametrize(("lease_s", "core_s"), [(None, inf), (600.0, 600.0)])
def test_a_delay_gate_without_a_lease_never_places_a_running_job_again(
    lease_s: float | None, core_s: float
) -> None:
    core = GateSection.model_validate({"lease_s": lease_s}).to_core(GateKind.DELAY)
    assert isinstance(core, DelayConfig)
    assert core.lease_s == core_s


def test_without_a_partition_that_allows_it_there_is_no_preemption() -> None:
    for kind in PreemptionKind:
        assert PreemptionSection().to_core(kind, []) is None
    assert PreemptionSection().to_core(PreemptionKind.NONE, ["main"]) is None


def test_preemption_names_its_partitions_in_order_and_keeps_qos_to_the_daemon() -> None:
    section = PreemptionSection.model_validate({"budget_per_hour": 5, "qos": ["scavenger"]})

    core = section.to_core(PreemptionKind.NETWORK, ["main", "debug"])

    assert isinstance(core, NetworkPreemptionConfig)
    assert core.partitions == ("debug", "main")
    assert core.budget_per_hour == 5
    assert section.qos == ("scavenger",)


@pytest.mark.parametrize("lease_s", [None, 60.0])
def test_each_rule_has_its_own_lease_unless_one_is_given(lease_s: float | None) -> None:
    section = PreemptionSection(lease_s=lease_s)

    las, closer, known, leases, network = (
        section.to_core(kind, ["main"])
        for kind in (
            PreemptionKind.LAS_MOVES,
            PreemptionKind.LAS_CLOSER_MOVES,
            PreemptionKind.KNOWN_LEFT_MOVES,
            PreemptionKind.LEASES,
            PreemptionKind.NETWORK,
        )
    )

    assert las == LasMovesConfig(partitions=("main",), lease_s=lease_s or 360.0)
    assert closer == LasMovesConfig(
        partitions=("main",), lease_s=lease_s or 1_800.0, serves_deferred=True
    )
    assert known == KnownLeftMovesConfig(partitions=("main",), lease_s=lease_s or 1_800.0)
    assert leases == LeasesConfig(partitions=("main",), lease_s=lease_s or 3_600.0)
    assert network == NetworkPreemptionConfig(partitions=("main",), lease_s=lease_s or 3_600.0)


def test_a_patience_may_be_without_end() -> None:
    patience_s = EngineSection.model_validate({"patience_s": "never"}).patience_s
    assert patience_s == inf
    assert EngineSection().to_core(inf).patience_s == inf


@pytest.mark.parametrize(
    ("section", "values"),
    [
        (EngineSection, {"patience_s": 0.0}),
        (EngineSection, {"refusal_limit": 0}),
        (EngineSection, {"passing": "all"}),
        (GateSection, {"quantile_frac": 1.0}),
        (GateSection, {"quantile_frac": 0.0}),
        (GateSection, {"idle_frac": 1.1}),
        (GateSection, {"prior_count": 0.0}),
        (GateSection, {"longest_s": inf}),
        (GateSection, {"speeds": "speeds.csv"}),
        (PreemptionSection, {"restart_s": -1.0}),
        (PreemptionSection, {"budget_per_hour": -1}),
    ],
)
def test_numbers_out_of_range_are_refused(
    section: type[EngineSection | GateSection | PreemptionSection], values: dict[str, object]
) -> None:
    (key,) = values
    with pytest.raises(ValidationError) as caught:
        section.model_validate(values)
    assert [error["loc"] for error in caught.value.errors()] == [(key,)]


def test_the_bounds_themselves_are_in_range() -> None:
    GateSection.model_validate({"idle_frac": 0.0, "limit_frac": 1.0, "longest_s": 0.0})
    EngineSection.model_validate({"refusal_limit": 1, "ended_job_count": 0})
    PreemptionSection.model_validate({"restart_s": 0.0, "budget_per_hour": 0})
