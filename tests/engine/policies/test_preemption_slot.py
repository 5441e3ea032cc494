"""preemption_slot: how often a policy is asked, and that no answer of it does harm."""

from collections.abc import Sequence
from math import inf
from typing import Any

import pytest

from roost_engine.domain.errors import PolicyError
from roost_engine.job_record import JobRecord, JobState
from roost_engine.policies.preemption_slot import PreemptionSlot
from roost_engine.policies.slots import FaultLog
from roost_engine.testing.builders import job, waiting
from roost_engine.testing.fakes import FakePreemption


def running(*priorities: int) -> list[JobRecord]:
    found = [waiting(job(str(priority), priority=priority)) for priority in priorities]
    for record in found:
        record.state = JobState.RUNNING
    return found


class Ranking(FakePreemption):
    """Displaces along its ranking; answers the count that a test gives it, or the true one."""

    def __init__(self, ranks_by_runs: bool = True, answer: object = None) -> None:
        super().__init__()
        self.ranks_by_runs, self.answer, self.count_calls = ranks_by_runs, answer, 0

    def displaced_count(self, job: JobRecord, ranked: Sequence[JobRecord], at_s: float) -> Any:
        """See policies.RankingPreemption."""
        self.count_calls += 1
        if self.answer is not None:
            return self.answer
        return sum(self.displaces(job, victim, at_s) for victim in ranked)


def test_the_same_jobs_are_ranked_once_for_each_time() -> None:
    for ranks_by_runs, call_count in ((True, 3), (False, 4)):
        policy, jobs = Ranking(ranks_by_runs), running(3, 1, 2)
        slot = PreemptionSlot(policy, FaultLog())
        for at_s, some in ((5.0, jobs), (5.0, list(jobs)), (6.0, jobs), (6.0, jobs[:2])):
            ranked = slot.first_to_go(some, at_s)
            assert [each.job_id for each in ranked] == sorted(each.job_id for each in some)
        assert len(policy.asked) == call_count


def test_a_ranking_policy_is_asked_once_for_each_waiting_job() -> None:
    policy, newcomer = Ranking(), waiting(job("9", priority=3))
    slot = PreemptionSlot(policy, FaultLog())
    ranked = slot.first_to_go(running(1, 2, 3, 4), 0.0)
    assert [each.job_id for each in slot.displaced(newcomer, ranked, 0.0)] == ["1", "2"]
    assert policy.count_calls == 1


def test_another_policy_is_asked_about_each_pair_up_to_the_first_no() -> None:
    slot, newcomer = PreemptionSlot(FakePreemption(), FaultLog()), waiting(job("9", priority=3))
    ranked = slot.first_to_go(running(1, 2, 3, 4), 0.0)
    ranked[0].state = JobState.STOPPING  # for another job, since it was ranked
    assert [each.job_id for each in slot.displaced(newcomer, ranked, 0.0)] == ["2"]


@pytest.mark.parametrize("answer", [-1, 5, 1.0, inf, "all", (), [1]])
def test_a_count_that_is_none_displaces_no_job_and_is_a_fault(answer: object) -> None:
    faults = FaultLog()
    slot = PreemptionSlot(Ranking(answer=answer), faults)
    ranked = slot.first_to_go(running(1, 2, 3, 4), 0.0)
    assert not slot.displaced(waiting(job("9", priority=9)), ranked, 0.0)
    assert faults.counts["preemption"] == 1


def test_a_policy_that_cannot_say_how_it_ranks_is_ranked_each_time() -> None:
    class Silent(Ranking):
        @property
        def ranks_by_runs(self) -> bool:
            raise PolicyError("no answer")

        @ranks_by_runs.setter
        def ranks_by_runs(self, value: bool) -> None:
            pass

    faults = FaultLog()
    slot = PreemptionSlot(Silent(), faults)
    assert not slot.ranks_by_runs
    assert faults.counts["preemption"] == 1
