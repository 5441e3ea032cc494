"""dally: Dally's gate as its authors coded it, against values worked out by hand."""

from math import inf, nan

import pytest
from tests.engine.offers import ACROSS, NODE, RACK, offer, outcome, record, two_racks

from roost_engine.domain.tier import Tier
from roost_engine.gate.dally import (
    AUTO,
    DallyConfig,
    DallyGate,
    node_timer_leases,
    rack_timer_leases,
    spread_leases,
)
from roost_engine.policies.protocols import Allow, Defer, GatePolicy

HOUR_S = 3_600.0


def gate(**options: float) -> DallyGate:
    return DallyGate(DallyConfig(**options))


def learn(dally: DallyGate, tier: Tier, gpus: int, *waits_h: float, at_s: float = 0.0) -> None:
    """Let jobs of this many GPUs get a tier after these hours of waiting."""
    for number, wait_h in enumerate(waits_h):
        job = record(f"learned-{number}", gpus, queued_s=at_s - wait_h * HOUR_S)
        if tier != NODE:
            assert dally.decide(offer(job, tier, at_s)) == Allow()
        dally.note(outcome(job, tier, at_s))


class TestTheTuner:
    def test_spread_is_mean_and_two_population_deviations(self) -> None:
        # mean 4, squared deviations 4, 0, 4: variance 8/3 = 2.667, deviation 1.633
        assert spread_leases([2, 4, 6]) == pytest.approx(4 + 2 * 1.63299, abs=1e-4)

    def test_spread_without_waits_is_one(self) -> None:
        assert spread_leases([]) == spread_leases([0, 0]) == 1.0

    def test_floors_of_6_and_12_leases(self) -> None:
        assert node_timer_leases([2, 2], 24) == 6
        assert rack_timer_leases([2, 2], 24) == 12

    def test_rounds_up(self) -> None:
        # 7.27 and 13.5 leases
        assert node_timer_leases([2, 4, 6], 24) == 8
        assert rack_timer_leases([13.5], 24) == 14

    def test_caps_are_0_8_of_the_history_rounded_up_and_the_history(self) -> None:
        assert node_timer_leases([30], 24) == 20  # 19.2 rounded up
        assert rack_timer_leases([30], 24) == 24

    def test_a_short_history_caps_below_the_floors(self) -> None:
        assert node_timer_leases([], 5) == 4
        assert rack_timer_leases([], 5) == 5


class TestDecisions:
    def test_one_node_is_taken_at_once(self) -> None:
        assert gate().decide(offer(record(), NODE, 0)) == Allow()

    def test_a_rack_is_taken_after_t_m(self) -> None:
        dally, job = gate(), record(queued_s=100.0)
        verdict = dally.decide(offer(job, RACK, 100.0))
        assert verdict == Defer(100.0 + 6 * HOUR_S, "waits for GPUs on one node")
        assert isinstance(dally.decide(offer(job, RACK, 100.0 + 6 * HOUR_S - 1)), Defer)
        assert dally.decide(offer(job, RACK, 100.0 + 6 * HOUR_S)) == Allow()

    def test_any_offer_is_taken_after_t_r(self) -> None:
        dally, job = gate(), record()
        verdict = dally.decide(offer(job, ACROSS, 6 * HOUR_S))
        assert verdict == Defer(12 * HOUR_S, "waits for GPUs in one rack")
        assert dally.decide(offer(job, ACROSS, 12 * HOUR_S)) == Allow()

    def test_a_job_larger_than_a_machine_skips_t_m(self) -> None:
        dally, job = gate(), record(gpus=16)
        assert dally.decide(offer(job, RACK, 0)) == Allow()
        assert dally.decide(offer(job, ACROSS, 0)) == Defer(
            12 * HOUR_S, "waits for GPUs in one rack"
        )

    def test_a_job_larger_than_a_rack_never_waits(self) -> None:
        assert gate().decide(offer(record(gpus=32), ACROSS, 0, two_racks())) == Allow()

    @pytest.mark.parametrize(
        ("node", "rack", "expected"),
        [
            (0.0, 0.0, (Allow(), Allow())),
            (
                1.0,
                2.0,
                (
                    Defer(HOUR_S, "waits for GPUs on one node"),
                    Defer(2 * HOUR_S, "waits for GPUs in one rack"),
                ),
            ),
            (
                inf,
                inf,
                (
                    Defer(inf, "waits for GPUs on one node"),
                    Defer(inf, "waits for GPUs in one rack"),
                ),
            ),
            # From T_R on any offer is taken, so T_R < T_M ends a wait for a node before T_M.
            (
                5.0,
                2.0,
                (
                    Defer(2 * HOUR_S, "waits for GPUs on one node"),
                    Defer(2 * HOUR_S, "waits for GPUs in one rack"),
                ),
            ),
        ],
    )
    def test_timers_by_hand(
        self, node: float, rack: float, expected: tuple[object, object]
    ) -> None:
        dally = gate(node_timer_leases=node, rack_timer_leases=rack)
        found = tuple(dally.decide(offer(record(), tier, 0)) for tier in (RACK, ACROSS))
        assert found == expected

    def test_timers_are_in_leases(self) -> None:
        dally = gate(lease_s=20.0, node_timer_leases=1.0, rack_timer_leases=2.0)
        assert dally.decide(offer(record(), RACK, 20.0)) == Allow()

    def test_rounding_of_a_deadline_does_not_defer_to_the_same_instant(self) -> None:
        dally = gate(lease_s=0.1, node_timer_leases=3.0, rack_timer_leases=3.0)
        job = record(queued_s=0.7)
        verdict = dally.decide(offer(job, RACK, 0.7))
        assert isinstance(verdict, Defer)
        assert dally.decide(offer(job, RACK, verdict.until_s)) == Allow()


class TestHistory:
    def test_waits_for_a_node_change_t_m_of_their_gpu_count_only(self) -> None:
        dally = gate()
        learn(dally, NODE, 8, 8.0, 8.0, 14.0)
        # mean 10, deviation sqrt((4 + 4 + 16) / 3) = 2.83: 15.66, so 16 leases
        assert dally.timers_leases(8) == (16, 12)
        assert dally.timers_leases(4) == (6, 12)

    def test_waits_shorter_than_a_lease_are_not_recorded(self) -> None:
        dally = gate()
        learn(dally, NODE, 8, 10.0, 0.0, 0.99)
        assert dally.timers_leases(8) == (10, 12)

    def test_a_rack_taken_because_t_m_had_passed_changes_t_r(self) -> None:
        dally = gate()
        learn(dally, RACK, 8, 13.2)
        assert dally.timers_leases(8) == (6, 14)

    def test_a_rack_taken_because_t_r_had_passed_is_not_recorded(self) -> None:
        dally = gate()
        learn(dally, NODE, 8, 15.0)  # T_M is 15 leases now, T_R 12
        learn(dally, RACK, 8, 13.0)
        assert dally.timers_leases(8) == (15, 12)

    def test_waits_that_ended_across_racks_or_in_withdrawal_are_not_recorded(self) -> None:
        dally = gate()
        learn(dally, ACROSS, 8, 20.0)
        dally.note(outcome(record(), None, 20 * HOUR_S))
        assert dally.timers_leases(8) == (6, 12)

    def test_waits_older_than_the_history_are_dropped_when_one_is_recorded(self) -> None:
        dally = gate(hist_leases=24.0)
        learn(dally, NODE, 8, 18.0, at_s=0.0)
        learn(dally, NODE, 8, 7.0, at_s=24 * HOUR_S)
        # both waits are remembered: mean 12.5, deviation 5.5: 23.5, at most ceil(19.2) = 20
        assert dally.timers_leases(8)[0] == 20
        learn(dally, NODE, 8, 7.0, at_s=24 * HOUR_S + 1)
        assert dally.timers_leases(8)[0] == 7

    def test_a_thousand_gpu_counts_have_timers_of_their_own(self) -> None:
        dally = gate()
        for gpus in range(1, 1001):
            job = record("1", gpus, queued_s=-(7 + gpus % 3) * HOUR_S)
            dally.note(outcome(job, NODE, 0.0))
        assert [dally.timers_leases(gpus)[0] for gpus in (998, 999, 1000)] == [9, 7, 8]


@pytest.mark.parametrize(
    "options",
    [
        {"lease_s": 0.0},
        {"lease_s": nan},
        {"lease_s": inf},
        {"hist_leases": 0.0},
        {"hist_leases": nan},
        {"node_timer_leases": -2.0},
        {"rack_timer_leases": nan},
    ],
)
def test_refuses_absurd_numbers(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="want a"):
        DallyConfig(**options)


def test_one_timer_by_hand_does_not_switch_tuning_off() -> None:
    assert DallyConfig(node_timer_leases=AUTO, rack_timer_leases=2.0).is_auto


def test_is_a_gate() -> None:
    checked: GatePolicy = DallyGate()
    assert checked.decide(offer(record(), NODE, 0)) == Allow()
