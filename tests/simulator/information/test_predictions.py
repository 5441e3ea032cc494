"""Predicted run times: who is most like a job, and that nothing is known before it has ended."""

import pytest
from tests.simulator.past_run import PastRun
from tests.simulator.simulated import arrival, cluster

from roost_engine.domain.model import JobId
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Policies
from roost_sim.information.predictions import RECENT_COUNT, JobKind, Predictions
from roost_sim.information.progress import Progress, ProgressTable
from roost_sim.policies.order.job_values import Remaining
from roost_sim.policies.order.virtual_srpt import VirtualSrpt
from roost_sim.runs.driver import Driver
from roost_sim.worlds.world import FullSpeed

Kind = tuple[int, str, int]  # user, what it runs, GPUs
ANN, BOB, NEW = 1, 2, JobId("new")


def predictions(*past: tuple[Kind, float], new: Kind = (ANN, "", 1)) -> Predictions:
    """Of jobs that ended, in this order, and one that comes then."""
    progress = ProgressTable()
    kinds = {NEW: JobKind(*new)}
    for number, (kind, ran_s) in enumerate(past):
        kinds[JobId(str(number))] = JobKind(*kind)
        progress.past.append(PastRun(JobId(str(number)), kind[2], ran_s))
    return Predictions(kinds, progress)


PAST: tuple[tuple[Kind, float], ...] = (
    ((BOB, "", 4), 60.0),
    ((BOB, "bert", 2), 50.0),
    ((ANN, "", 8), 40.0),
    ((ANN, "", 2), 30.0),
    ((ANN, "bert", 4), 20.0),
    ((ANN, "bert", 2), 10.0),
)


@pytest.mark.parametrize(
    ("new", "told_s"),
    [
        ((ANN, "bert", 2), 10),  # hers, the same, on as many
        ((ANN, "bert", 1), 20),  # hers, the same: 10 and 20, the upper
        ((ANN, "gpt", 8), 40),  # hers, on as many
        ((ANN, "", 1), 30),  # Ann's: 10, 20, 30, 40, the upper of the middle two
        ((3, "bert", 4), 60),  # all users' on as many: 20 and 60
        ((3, "", 16), 40),  # all users': 10 to 60
    ],
)
def test_the_most_alike_jobs_count(new: Kind, told_s: float) -> None:
    assert predictions(*PAST, new=new)[NEW] == told_s


def test_the_prediction_is_an_hour_before_any_job_has_ended() -> None:
    assert predictions()[NEW] == 3600
    assert predictions().left_s(NEW, 5000.0) == 2200  # then two hours


def test_old_jobs_are_forgotten() -> None:
    old, young = ((ANN, "", 1), 100.0), ((ANN, "", 1), 9.0)
    assert predictions(*RECENT_COUNT * [old], *RECENT_COUNT * [young])[NEW] == 9


def test_a_job_beyond_its_prediction_goes_by_the_jobs_that_ran_longer() -> None:
    found = predictions(*(((ANN, "", 1), float(ran_s)) for ran_s in (10, 20, 30, 70, 90)))
    assert found[NEW] == 30
    assert found.left_s(NEW, 30.0) == 60  # 70 and 90 are left, the upper: 90 - 30
    assert found.left_s(NEW, 80.0) == 10
    assert found.left_s(NEW, 90.0) == 90  # none took longer: twice the longest, 180 - 90
    assert found.left_s(NEW, 200.0) == 160  # four times, 360 - 200


def test_the_remaining_run_time_of_a_running_job_is_never_0() -> None:
    found = predictions(*(((ANN, "", 1), float(ran_s)) for ran_s in (10, 20, 30, 70, 90)))
    progress = ProgressTable()
    progress.jobs[NEW] = Progress(work_s=500.0, remaining_s=500.0, rate=1.0, is_running=True)
    told = Remaining(found, progress, found.left_s)
    assert [told.seconds(NEW, at_s) for at_s in (0.0, 29.0, 30.0, 80.0)] == [30, 1, 60, 10]
    assert Remaining(found, progress).seconds(NEW, 80.0) == 0


def test_a_prediction_never_changes() -> None:
    progress = ProgressTable()
    found = Predictions({NEW: JobKind(ANN, "", 1), JobId("1"): JobKind(ANN, "", 1)}, progress)
    assert found[NEW] == 3600
    progress.past.append(PastRun(JobId("1"), 1, 7.0))
    assert (found[NEW], found[JobId("1")]) == (3600, 7)


def test_waiting_jobs_are_not_part_of_a_prediction() -> None:
    # One node. 1 runs 0-100; 2 and 3 take 5 s and, on an idle cluster, would have ended by 10. 4
    # comes at 50 and is predicted when the node is free, at 100: only 1 has ended by then.
    rows = (("1", 0, 100, 8), ("2", 1, 5, 8), ("3", 2, 5, 8), ("4", 50, 1, 8))
    progress = ProgressTable()
    found = Predictions({JobId(row[0]): JobKind(ANN, "", 8) for row in rows}, progress)
    engine = Engine(EngineConfig(), Policies(order=VirtualSrpt(lambda: found, gpu_count=8)))
    Driver(engine, FullSpeed(), progress=progress).run(cluster(1), [arrival(*row) for row in rows])
    assert (found[JobId("2")], found[JobId("4")]) == (3600, 100)
