"""speed: what is believed of jobs' speeds, why, and how firmly."""

from dataclasses import dataclass
from math import inf, nan

import numpy as np
import pytest
from tests.engine.offers import ACROSS, NODE, RACK, record, run, two_racks

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.model import JobSpec, NodeName
from roost_engine.prediction.speed.speed_predictor import Source, SpeedPredictor, work_s
from roost_engine.prediction.speed.tier_speeds import UNKNOWN_SPEEDS, TierSpeeds

TYPICAL = TierSpeeds(1.0, 0.6, 0.4)
BERT = TierSpeeds(0.8, 0.4, 0.2)


def spec(gpus: int = 8, *, user_id: int = 1000, name: str = "", model: str = "") -> JobSpec:
    found = record("1", gpus, user_id=user_id, name=name, model=model).spec
    assert found is not None
    return found


@dataclass(frozen=True)
class OneModel:
    """Knows bert."""

    def speeds(self, model: str, gpu_count: int) -> TierSpeeds | None:
        return BERT if model == "bert" else None

    def typical(self, gpu_count: int) -> TierSpeeds:
        return TYPICAL


class TestTierSpeeds:
    def test_loss_is_to_the_next_tier_out(self) -> None:
        assert BERT.lost_frac(NODE) == pytest.approx(1 - 0.4 / 0.8)
        assert BERT.lost_frac(RACK) == pytest.approx(1 - 0.2 / 0.4)
        assert BERT.lost_frac(ACROSS) == 0

    @pytest.mark.parametrize("absurd", [nan, inf, -inf])
    def test_what_is_no_speed_loses_nothing(self, absurd: float) -> None:
        assert TierSpeeds(absurd, absurd, absurd) == TierSpeeds(1.0, 1.0, 1.0)
        assert TierSpeeds(0.8, absurd, 0.5) == TierSpeeds(0.8, 0.8, 0.5)

    def test_farther_is_never_faster(self) -> None:
        assert TierSpeeds(0.5, 0.9, 2.0) == TierSpeeds(0.5, 0.5, 0.5)

    def test_is_never_nothing(self) -> None:
        assert TierSpeeds(0.5, 0.0, -1.0) == TierSpeeds(0.5, 0.001, 0.001)


def test_a_named_model_is_looked_up() -> None:
    found = SpeedPredictor(OneModel()).estimate(spec(model="bert"))
    assert (found.speeds, found.source) == (BERT, Source.PROFILE)
    assert found.confidence_frac == 0.9


def test_a_name_that_no_table_knows_is_no_harm() -> None:
    found = SpeedPredictor(OneModel()).estimate(spec(model="b'ert; DROP"))
    assert (found.speeds, found.source, found.confidence_frac) == (TYPICAL, Source.PRIOR, 0.0)


def test_without_a_table_several_gpus_are_taken_to_care() -> None:
    model = SpeedPredictor()
    assert model.estimate(spec()).speeds == UNKNOWN_SPEEDS
    assert model.estimate(spec(gpus=1)).speeds == TierSpeeds(1.0, 1.0, 1.0)


class TestLearning:
    def test_runs_of_the_same_user_and_name_are_mixed_with_the_typical(self) -> None:
        model = SpeedPredictor(OneModel())
        model.learn(run(record(name="train"), 0, 100, ("a0", "a1"), speed_frac=0.9))
        found = model.estimate(spec(name="train"))
        # rack: (0.9 + 2 · 0.6) / 3 = 0.7; nothing seen on the others
        speeds = found.speeds
        assert (speeds.node_frac, speeds.across_frac) == (1.0, 0.4)
        assert speeds.rack_frac == pytest.approx(0.7)
        assert (found.source, found.run_count) == (Source.RUNS, 1)
        # one run of three tiers: 1/3 of a run a tier, (1/3) / (1/3 + 2) · 0.9
        assert found.confidence_frac == pytest.approx(0.9 / 7)

    def test_other_names_users_and_sizes_learn_nothing(self) -> None:
        model = SpeedPredictor(OneModel())
        model.learn(run(record(name="train"), 0, 100, ("a0", "a1"), speed_frac=0.9))
        for other in (spec(name="eval"), spec(name="train", user_id=2), spec(4, name="train")):
            assert model.estimate(other).source is Source.PRIOR

    def test_many_runs_outweigh_the_typical(self) -> None:
        model = SpeedPredictor(OneModel())
        for _ in range(200):
            model.learn(run(record(), 0, 100, ("a0", "b0"), speed_frac=0.9))
        assert model.estimate(spec()).speeds.across_frac == pytest.approx(0.6)  # at most the rack's
        for _ in range(200):
            model.learn(run(record(), 0, 100, ("a0", "a1"), speed_frac=0.95))
        assert model.estimate(spec()).speeds.across_frac == pytest.approx(0.9, abs=0.01)
        assert model.estimate(spec()).confidence_frac > 0.85

    def test_a_job_that_was_moved_or_has_one_gpu_tells_nothing(self) -> None:
        model = SpeedPredictor(OneModel())
        moved = record()
        moved.stop_count = 1
        model.learn(run(moved, 0, 100, ("a0", "a1"), speed_frac=0.9))
        model.learn(run(record(gpus=1), 0, 100, speed_frac=0.9))
        assert not model.state().seen

    def test_without_speeds_and_counters_a_run_tells_nothing(self) -> None:
        model = SpeedPredictor(OneModel())
        model.learn(run(record(), 0, 100))
        assert not model.state().seen

    @pytest.mark.parametrize("speed_frac", [nan, inf, 0.0, -1.0])
    def test_what_is_no_speed_is_dropped(self, speed_frac: float) -> None:
        model = SpeedPredictor(OneModel())
        model.learn(run(record(), 0, 100, ("a0", "a1"), speed_frac=speed_frac))
        assert not model.state().seen

    def test_remembers_a_bounded_number_of_names(self) -> None:
        model = SpeedPredictor(OneModel())
        for number in range(10_010):
            model.learn(run(record(name=f"n{number}"), 0, 1, ("a0", "a1"), speed_frac=0.9))
        assert len(model.state().seen) == 10_000


class TestCounters:
    def busy(self, nvlink_bytes_per_s: float) -> Cluster:
        cluster = two_racks()
        load = np.zeros((8, 4), dtype=np.float32)
        load[:, 3] = nvlink_bytes_per_s
        cluster.apply_loads((NodeName("a0"),), load[None])
        return cluster

    def test_busy_links_are_worth_one_run(self) -> None:
        model = SpeedPredictor(OneModel())
        # 450 GB/s is half of what a port can do: busy 0.5, so 1 / (1 + 4 · 0.5) = 1/3 outside
        for _ in range(5):
            model.learn(run(record(), 0, 100, cluster=self.busy(450e9)))
        found = model.estimate(spec())
        assert found.source is Source.COUNTERS
        # rack: (1/3 + 2 · 0.6) / 3; across: (1/3 + 2 · 0.4) / 3
        assert found.speeds.rack_frac == pytest.approx((1 / 3 + 1.2) / 3)
        assert found.speeds.across_frac == pytest.approx((1 / 3 + 0.8) / 3)

    def test_quiet_links_make_a_job_less_sensitive(self) -> None:
        model = SpeedPredictor(OneModel())
        model.learn(run(record(), 0, 100, cluster=self.busy(0.0)))
        assert model.estimate(spec()).speeds.rack_frac == pytest.approx((1.0 + 1.2) / 3)

    def test_links_that_were_watched_count_rather_than_how_they_last_were(self) -> None:
        model = SpeedPredictor(OneModel())
        watched = record()
        watched.nvlink_frac, watched.pcie_frac = 0.5, 0.1
        model.learn(run(watched, 0, 100, cluster=self.busy(0.0)))
        assert model.estimate(spec()).speeds.rack_frac == pytest.approx((1 / 3 + 1.2) / 3)


class TestAchieved:
    def test_nobody_goes_faster_than_where_it_is_as_close_as_it_could_be(self) -> None:
        model, job = SpeedPredictor(OneModel()), record()
        job.nvlink_frac, job.pcie_frac = 1.0, 1.0
        found = model.achieved(job, NODE, NODE)
        assert (found.speed_frac, found.source) == (1.0, Source.PLACE)

    def test_without_counters_it_is_what_is_believed_of_such_jobs(self) -> None:
        found = SpeedPredictor(OneModel()).achieved(record(), ACROSS, RACK)
        assert found.speed_frac == pytest.approx(0.4 / 0.6)
        assert (found.source, found.confidence_frac) == (Source.PRIOR, 0.0)

    @pytest.mark.parametrize(
        ("pcie_frac", "speed_frac"),
        # typical in a rack: 0.6, worth two runs; alone 1 - b · (1 - 1/4)
        [(0.0, (1.0 + 1.2) / 3), (0.4, (0.7 + 1.2) / 3), (1.0, (0.25 + 1.2) / 3)],
    )
    def test_busy_ways_out_of_the_node_tell_of_a_job_that_is_spread(
        self, pcie_frac: float, speed_frac: float
    ) -> None:
        job = record()
        job.nvlink_frac, job.pcie_frac = 0.9, pcie_frac  # NVLink ends at the node
        found = SpeedPredictor(OneModel()).achieved(job, RACK, NODE)
        assert found.speed_frac == pytest.approx(speed_frac)
        assert found.source is Source.OWN_LINKS
        assert found.confidence_frac == pytest.approx(0.3)  # one run and two of few: 1/3 · 0.9

    def test_network_cards_tell_better_than_the_way_to_them(self) -> None:
        job = record()
        job.pcie_frac, job.nic_frac = 1.0, 0.4
        found = SpeedPredictor(OneModel()).achieved(job, RACK, NODE)
        assert found.speed_frac == pytest.approx((0.7 + 1.2) / 3)

    def test_earlier_runs_weigh_more_than_the_counters_of_this_one(self) -> None:
        model, job = SpeedPredictor(OneModel()), record()
        for _ in range(3):
            model.learn(run(record(), 0, 100, ("a0", "a1"), speed_frac=0.9))
        job.pcie_frac = 0.0
        found = model.achieved(job, RACK, NODE)
        # believed: (3 · 0.9 + 2 · 0.6) / 5 = 0.78, worth 3 + 2 runs; this one says 1
        assert found.speed_frac == pytest.approx((1.0 + 5 * 0.78) / 6)
        assert found.source is Source.RUNS

    def test_a_table_that_knows_the_model_knows_better(self) -> None:
        job = record(model="bert")
        job.pcie_frac = 0.0
        found = SpeedPredictor(OneModel()).achieved(job, RACK, NODE)
        assert found.speed_frac == pytest.approx(0.5)
        assert found.source is Source.PROFILE


class TestStretch:
    def test_shared_links_stretch_what_tables_say(self) -> None:
        model = SpeedPredictor(OneModel())
        assert model.estimate(spec(model="bert")).speeds == BERT
        # bert loses 0.25 on a node. At 0.25 of that speed across racks (1.25 / 0.25) - 1 = 4 are
        # exposed; alone it would be 1 / 0.2 - 1 = 4: no stretch. At 0.125 it is 9.
        for _ in range(1000):
            model.learn(run(record(model="bert"), 0, 1, ("a0", "b0"), speed_frac=0.125))
        speeds = model.estimate(spec(model="bert")).speeds
        assert speeds.across_frac == pytest.approx(1 / (1 + 4 * 9 / 4), rel=0.01)
        assert speeds.rack_frac == 0.4
        model.restore(SpeedPredictor().state())
        assert model.estimate(spec(model="bert")).speeds == BERT

    def test_links_are_never_better_than_alone(self) -> None:
        model = SpeedPredictor(OneModel())
        for _ in range(100):
            model.learn(run(record(model="bert"), 0, 1, ("a0", "b0"), speed_frac=1.0))
        assert model.estimate(spec(model="bert")).speeds == BERT


def test_state_continues_where_it_was_taken() -> None:
    model, copy = SpeedPredictor(OneModel()), SpeedPredictor(OneModel())
    model.learn(run(record(), 0, 100, ("a0", "a1"), speed_frac=0.9))
    model.learn(run(record(model="bert"), 0, 100, ("a0", "b1"), speed_frac=0.1))
    copy.restore(model.state())
    for job in (spec(), spec(model="bert")):
        assert copy.estimate(job) == model.estimate(job)


class TestWork:
    def test_speed_that_was_told_counts(self) -> None:
        ended = run(record(), 0, 100, ("a0", "a1"), speed_frac=0.5)
        assert work_s(ended.job, TYPICAL, RACK, NODE, 100) == 50

    def test_else_the_believed_speed_does(self) -> None:
        ended = run(record(), 0, 100, ("a0", "a1"))
        assert work_s(ended.job, TYPICAL, RACK, NODE, 100) == pytest.approx(60)
        assert work_s(ended.job, TYPICAL, None, NODE, 100) == 100
