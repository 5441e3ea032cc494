"""Warm starts: real starts of a trace, and figures of two outcomes."""

from dataclasses import replace

import numpy as np
import pytest
from tests.training.run_time_traces import repeating

from roost_sim.catalogue.composition import Composition
from roost_sim.clusters.cluster_file import load_cluster

pytest.importorskip("torch")

from roost_train.warmstart.replay import (
    compare,
    jobs_of,
    lesson_of,
    recorded_starts_s,
    run_policy,
)

FIFO = Composition(name="fifo", order="fifo")
LEARNED = Composition(name="learned", order="learned", gate="patient")
RANKED = Composition(name="drf", order="drf")


def test_recorded_starts_are_submission_plus_wait() -> None:
    trace = replace(repeating(4), wait_s=np.array([0.0, 5.0, np.nan, 7.0]))
    assert list(recorded_starts_s(trace).values()) == [0.0, 605.0, 1807.0]


def test_a_policy_is_as_good_as_itself() -> None:
    trace, cluster = repeating(30), load_cluster("small")
    outcome = run_policy(trace, cluster, FIFO, 0)
    assert len(jobs_of(trace, cluster, FIFO)) == 30
    assert compare(outcome, outcome).ratio == pytest.approx(1.0)


@pytest.mark.parametrize("teacher", [FIFO, LEARNED, RANKED], ids=lambda one: one.order)
def test_a_lesson_decides_as_its_teacher_and_remembers(teacher: Composition) -> None:
    cluster = load_cluster("small")
    trace = repeating(300).at_load(1.5, cluster.gpu_count)
    lesson = lesson_of(teacher, 0)
    plain, watched = (run_policy(trace, cluster, one, 0) for one in (teacher, lesson))
    assert [job.ended_s for job in plain.jobs] == [job.ended_s for job in watched.jobs]
    assert len(lesson.found[0].preferences(10)) == 10


def test_nothing_is_remembered_of_the_time_that_is_held_out() -> None:
    trace, cluster = repeating(60).at_load(1.5, 64), load_cluster("small")
    lesson = lesson_of(FIFO, 0, until_s=0.0)
    run_policy(trace, cluster, lesson, 0)
    assert len(lesson.found[0].preferences(10)) == 0


def test_only_jobs_that_came_late_enough_are_compared() -> None:
    trace, cluster = repeating(30), load_cluster("small")
    outcome = run_policy(trace, cluster, FIFO, 0)
    last = outcome.jobs[-1]
    assert last.ended_s is not None
    found = compare(outcome, outcome, from_s=last.submit_s)
    assert found.teacher_avg_jct_s == pytest.approx(last.ended_s - last.submit_s)
