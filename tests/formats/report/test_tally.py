"""Sums of a report, against cases worked by hand."""

import pytest
from tests.formats.report.past import past_job

from roost_engine.domain.model import NodeName, NodeShare
from roost_formats.report.figures import Estimate, GroupFigures
from roost_formats.report.tally import tally

SAME = (NodeShare(NodeName("n1"), (0, 1)),)


def watched(*jobs: object) -> GroupFigures:
    found = tally(jobs).figures(0.0, 1.0).watched  # type: ignore[arg-type]
    assert found is not None
    return found


def test_one_watched_job() -> None:
    found = watched(past_job())
    assert (found.job_count, found.started_count, found.chosen_count) == (1, 1, 1)
    assert found.gpu_hours == 2.0
    assert found.same_frac.value == 0.0
    assert found.real_link_frac == Estimate(0.05)
    assert found.planned_link_frac.value == 1.0
    assert found.planned_gain_frac.value == pytest.approx(0.95)
    assert (found.sooner_count, found.later_count, found.sooner_s.value) == (1, 0, 100.0)
    assert found.waiting_gpu_hours.value == pytest.approx(200 / 3600)
    assert found.running_gpu_hours == Estimate()


def test_links_weigh_by_gpus_and_those_that_are_unknown_count_not_at_all() -> None:
    found = watched(
        past_job(1, gpu_count=6),
        past_job(2, gpu_count=2, allocated=SAME, link_score=400),
        past_job(3, gpu_count=90, link_score=None),
        past_job(4, gpu_count=1, best_link_score=0, planned_link_score=0, link_score=0),
    )
    assert found.real_link_frac.value == pytest.approx((6 * 0.05 + 2 * 1.0) / 8)
    assert found.same_frac.value == 0.25


def test_links_on_another_kind_of_node_are_shares_of_the_best_there() -> None:
    found = watched(past_job(link_score=1_800, real_best_link_score=1_800))
    assert found.real_link_frac.value == 1.0
    assert found.planned_gain_frac.value == 0.0


def test_a_job_that_slurm_started_first_would_have_been_later() -> None:
    found = watched(
        past_job(1, decided_s=None, planned=()),
        past_job(2, decided_s=1_800_000_118.0),
        past_job(3, started_s=None, allocated=()),
    )
    assert (found.started_count, found.chosen_count) == (2, 1)
    assert (found.sooner_count, found.later_count) == (0, 1)
    assert found.sooner_s == Estimate()


def test_expected_speeds_give_run_time_spared() -> None:
    found = watched(past_job(tier=2, planned_tier=1, speeds_frac=(1.0, 0.8, 0.4)))
    assert found.running_gpu_hours.value == pytest.approx(2.0 * (1 - 0.4 / 0.8))


def test_modes_partitions_and_users_stand_apart() -> None:
    figures = tally(
        [
            past_job(1),
            past_job(2, user_id=60002, partition="debug", is_binding=True),
            past_job(3, is_binding=None, reason="partition off"),
            past_job(4, is_binding=None),
        ]
    ).figures(0.0, 1.0)
    assert figures.job_count == 4
    assert figures.enforced is not None
    assert figures.enforced.stock_gain_frac.value == pytest.approx(0.05 - 0.1)
    assert [(one.name, one.watched is None) for one in figures.partitions] == [
        ("debug", True),
        ("main", False),
    ]
    assert {one.name for one in figures.users} == {"60001", "60002"}
    assert dict(figures.left) == {"partition off": 1, "started before roostd saw it wait": 1}


def test_limits_are_counted_with_the_time_under_them() -> None:
    figures = tally(
        [past_job(number, limit="MaxGRES", limited_s=30.0) for number in range(3)]
        + [past_job(9, limit="Licenses", limited_s=5.0)]
    ).figures(0.0, 1.0)
    found = [(one.limit, one.job_count, one.wait_s) for one in figures.limits]
    assert found == [("MaxGRES", 3, 90.0), ("Licenses", 1, 5.0)]


def test_the_interval_is_wide_where_users_differ_and_no_wider_for_more_jobs_of_one_day() -> None:
    jobs = [
        past_job(number, user_id=60_000 + number % 20, link_score=400 if number % 20 < 10 else 20)
        for number in range(200)
    ]
    found = watched(*jobs).real_link_frac
    assert found.value == pytest.approx(0.525)
    assert found.low is not None
    assert found.high is not None
    assert 0.25 < found.low < 0.42 < 0.63 < found.high < 0.8
    again = watched(*jobs, *jobs).real_link_frac
    assert again.low == pytest.approx(found.low, abs=0.001)


def test_nothing_is_nothing() -> None:
    figures = tally([]).figures(0.0, 1.0)
    assert (figures.watched, figures.enforced, figures.partitions, figures.users) == (
        None,
        None,
        (),
        (),
    )
