"""canary: the candidate decides for a share of the users, and no other user's job is moved."""

from collections.abc import Sequence
from math import inf
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.cluster.cluster import Cluster
from roost_engine.domain.actions import Decision
from roost_engine.domain.errors import PolicyError
from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.gate.dally import DallyConfig
from roost_engine.job_record import JobRecord
from roost_engine.plugins.plugins import Canary, Models, Plugins
from roost_engine.plugins.stacks import OrderKind
from roost_engine.policies.canary import (
    CANARY_SLOTS,
    CanaryGate,
    CanaryOrder,
    CanaryScore,
    Slot,
    UserShare,
)
from roost_engine.policies.heuristics import PriorityOrder
from roost_engine.policies.protocols import (
    Allow,
    Defer,
    GateVerdict,
    Offer,
    QueueMark,
    QueueView,
    WaitEnded,
)
from roost_engine.queue.orders import OrderByValue, attained_service
from roost_engine.scoring.heuristic import HeuristicScore
from roost_engine.testing.builders import EngineHarness, job, node, shape, waiting

IN, OUT = 1002, 1000  # users at 0.352 and 0.704
HALF = UserShare(0.5)


class Backwards:
    """Ranks the highest id first."""

    name = "backwards"

    def rank(self, view: QueueView) -> Sequence[JobId]:
        return sorted((one.job_id for one in view.jobs), reverse=True)


def view(*users: int) -> QueueView:
    jobs = [waiting(job(str(number), user_id=user)) for number, user in enumerate(users)]
    return QueueView(jobs=jobs, cluster=Cluster(), at_s=0.0)


def test_a_share_holds_about_as_many_users_as_it_says_and_a_larger_one_holds_them_too() -> None:
    for first in (1000, 60_000):
        tenth = {user for user in range(first, first + 1000) if UserShare(0.1).has(user)}
        assert 80 <= len(tenth) <= 120
        assert all(UserShare(0.3).has(user) for user in tenth)
    assert not UserShare(0.0).has(IN)
    assert UserShare(1.0).has(OUT)
    assert (HALF.has(IN), HALF.has(OUT)) == (True, False)


def test_canary_jobs_swap_turns_and_no_other_job_moves() -> None:
    order = CanaryOrder(PriorityOrder(), Backwards(), HALF)
    assert order.name == "priority+backwards"
    assert order.rank(view(OUT, IN, OUT, IN)) == ["0", "3", "2", "1"]


@pytest.mark.parametrize("seed", range(10))
def test_every_other_users_job_keeps_its_turn(seed: int) -> None:
    random = Random(seed)
    queue = view(*(random.choice([IN, OUT, 500, 60_002]) for _ in range(30)))
    before = list(PriorityOrder().rank(queue))
    after = list(CanaryOrder(PriorityOrder(), Backwards(), HALF).rank(queue))
    assert sorted(after) == sorted(before)
    users = {one.job_id: one.spec.user_id for one in queue.jobs}
    moved = {users[job_id] for job_id, other in zip(before, after, strict=True) if job_id != other}
    assert all(HALF.has(user) for user in moved)


def test_an_order_is_asked_again_when_either_side_wants_it_or_a_job_came() -> None:
    class Restless(Backwards):
        def is_outdated(self, ranked: QueueMark, now: QueueMark) -> bool:
            return now.at_s >= 60.0

    order = CanaryOrder(PriorityOrder(), Restless(), HALF)
    start = QueueMark(1, 0, 0, 0.0)
    assert not order.is_outdated(start, QueueMark(1, 0, 0, 30.0))
    assert order.is_outdated(start, QueueMark(1, 0, 0, 60.0))
    assert order.is_outdated(start, QueueMark(2, 0, 0, 1.0))


def test_both_orders_are_shown_a_job_that_is_queued() -> None:
    class Noting(Backwards):
        def __init__(self) -> None:
            self.noted = list[JobId]()

        def note(self, job: JobRecord, at_s: float) -> None:
            self.noted.append(job.job_id)

    active, candidate = Noting(), Noting()
    for order in (
        CanaryOrder(active, candidate, HALF),
        CanaryOrder(PriorityOrder(), candidate, HALF),
    ):
        order.note(view(OUT).jobs[0], 0.0)
    assert (active.noted, candidate.noted) == (["0"], ["0", "0"])


class Closed:
    """Lets every job wait, and counts what it is told."""

    name = "closed"

    def __init__(self) -> None:
        self.noted: list[str] = []

    def decide(self, offer: Offer) -> GateVerdict:
        return Defer(offer.at_s + 10.0, "closed")

    def note(self, outcome: WaitEnded) -> None:
        self.noted.append(outcome.job.job_id)


class Opened(Closed):
    name = "opened"

    def decide(self, offer: Offer) -> GateVerdict:
        return Allow()


def test_the_longest_wait_is_that_of_the_active_order() -> None:
    bounded = OrderByValue(attained_service, longest_wait_s=60.0)
    assert CanaryOrder(bounded, Backwards(), HALF).longest_wait_s == 60.0
    assert CanaryOrder(Backwards(), bounded, HALF).longest_wait_s == inf


def test_each_gate_judges_and_learns_from_its_own_side() -> None:
    active, candidate = Opened(), Closed()
    gate = CanaryGate(active, candidate, HALF)
    for user, kind in ((IN, Defer), (OUT, Allow)):
        record = waiting(job(str(user), user_id=user))
        offer = Offer(
            job=record, waited_s=0.0, shape=shape(1), tier=Tier.NODE, cluster=Cluster(), at_s=0.0
        )
        assert isinstance(gate.decide(offer), kind)
        gate.note(WaitEnded(job=record, waited_s=0.0, tier=Tier.NODE, at_s=0.0))
    assert (active.noted, candidate.noted) == ([str(OUT)], [str(IN)])


class Last:
    """Prefers the last candidate."""

    name = "last"

    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.arange(len(features), dtype=np.float32)


class Broken(Last):
    def score(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        raise PolicyError("broken")


def decision_of(harness: EngineHarness, job_id: str) -> Decision:
    decision = harness.engine.record(JobId(job_id)).decision
    assert decision is not None
    return decision.get()


def test_the_candidate_scores_for_canary_users_only() -> None:
    canary = Canary(slot=Slot.SCORE, share_frac=0.5)
    policies = Plugins(canary=canary).policies(HeuristicScore(), models=Models(canary_score=Last()))
    harness = EngineHarness([node("a")], policies=policies)
    harness.queue(job("1", user_id=OUT), job("2", user_id=IN))
    assert harness.gpus("1") == ("a:0",)
    assert harness.gpus("2") == ("a:7",)
    assert [decision_of(harness, job_id).policy for job_id in "12"] == ["heuristic", "last"]


def test_a_candidate_that_fails_to_score_falls_back_and_is_counted() -> None:
    canary = Canary(slot=Slot.SCORE, share_frac=1.0)
    models = Models(canary_score=Broken())
    policies = Plugins(canary=canary).policies(HeuristicScore(), models=models)
    harness = EngineHarness([node("a")], policies=policies)
    harness.queue(job("1"))
    assert decision_of(harness, "1").fallback_reason == "broken"
    assert harness.engine.fallback_count == 1
    assert harness.engine.decision_count == 1


def test_without_a_user_the_active_policy_scores() -> None:
    score = CanaryScore(HeuristicScore(), Last(), HALF)
    features = np.ones((2, 18), np.float32)
    assert score.score(features).tolist() == HeuristicScore().score(features).tolist()
    assert score.name == HeuristicScore.name


def test_plugins_build_the_canary_of_each_slot() -> None:
    gate = Plugins(canary=Canary(slot=Slot.GATE, share_frac=0.5, gate=DallyConfig()))
    order = Plugins(canary=Canary(slot=Slot.ORDER, share_frac=0.5, order=OrderKind.LAS))
    assert isinstance(gate.policies(HeuristicScore()).gate, CanaryGate)
    assert order.policies(HeuristicScore()).order.name == "priority+las"  # type: ignore[attr-defined]
    for slot in set(Slot) - set(CANARY_SLOTS):
        with pytest.raises(PolicyError, match="no canary"):
            Plugins(canary=Canary(slot=slot, share_frac=0.5)).policies(HeuristicScore())


def test_the_open_gate_is_a_candidate_beside_a_gate_that_defers() -> None:
    canary = Canary(slot=Slot.GATE, share_frac=0.5, gate=None)
    gate = Plugins(gate=DallyConfig(), canary=canary).policies(HeuristicScore()).gate
    assert gate.name == "dally+open"  # type: ignore[attr-defined]
