"""policy_watch: whose jobs count for which side, and which policies are to go."""

from dataclasses import replace

from tests.daemon.app.parts import Parts

from roost_engine.domain.events import JobEnded, JobQueued, JobStarted
from roost_engine.domain.model import JobId
from roost_engine.policies.canary import Slot
from roost_engine.prediction.evidence import Evidence
from roost_engine.testing.builders import job, share
from roostd.app.promotion.policy_watch import PolicyWatch
from roostd.ops.promotions import Promotion, Promotions

IN, OUT = 1002, 1000  # at 0.352 and 0.704


def promotion(slot: Slot = Slot.ORDER, share_frac: float = 1.0, **evidence: object) -> Promotion:
    return Promotion(
        slot=slot,
        name="las",
        share_frac=share_frac,
        evidence=replace(Evidence(), **evidence),  # type: ignore[arg-type]
    )


class Watched:
    """A watch over jobs that Slurm starts as a test says."""

    def __init__(self, promotions: Promotions) -> None:
        self.parts = Parts("a")
        self.parts.state.promotions = promotions
        self.watch = PolicyWatch(self.parts.state)

    def run(self, job_id: str, user_id: int, submit_s: float, began_s: float, end_s: float) -> None:
        engine = self.parts.state.engine
        spec = job(job_id, user_id=user_id, submit_s=submit_s)
        engine.step(JobQueued(at_s=submit_s, job=spec))
        engine.step(JobStarted(at_s=began_s, job_id=JobId(job_id), shares=(share("a", 0),)))
        ended = JobEnded(at_s=end_s, job_id=JobId(job_id))
        self.watch.observe(ended, engine.step(ended))


def test_each_job_counts_for_its_side() -> None:
    watched = Watched(Promotions(canary=promotion(share_frac=0.5)))
    watched.run("1", IN, 100.0, 175.0, 200.0)
    watched.run("2", OUT, 200.0, 250.0, 300.0)
    canary = watched.parts.state.promotions.canary
    assert canary is not None
    assert (canary.evidence.job_count, canary.evidence.observed_frac) == (1, 0.75)
    assert (canary.evidence.other_count, canary.evidence.other_frac) == (1, 0.5)
    assert watched.watch.is_changed


def test_a_canary_job_does_not_count_for_the_policy_that_it_replaces() -> None:
    both = Promotions(
        promoted={Slot.ORDER: promotion(), Slot.GATE: promotion(Slot.GATE)},
        canary=promotion(share_frac=0.5),
    )
    watched = Watched(both)
    watched.run("1", IN, 100.0, 150.0, 200.0)
    found = watched.parts.state.promotions.promoted
    assert found[Slot.ORDER].evidence.job_count == 0
    assert found[Slot.GATE].evidence.job_count == 1


def test_jobs_from_before_the_promotion_do_not_count() -> None:
    watched = Watched(Promotions())
    epoch_s = watched.parts.state.clock.to_epoch_s(150.0)
    late = replace(promotion(), at_epoch_s=epoch_s)
    watched.parts.state.promotions = Promotions(promoted={Slot.ORDER: late})
    watched.run("1", IN, 100.0, 150.0, 200.0)
    assert watched.parts.state.promotions.promoted[Slot.ORDER].evidence.job_count == 0
    assert not watched.watch.is_changed


def test_a_job_that_never_ran_does_not_count() -> None:
    watched = Watched(Promotions(promoted={Slot.ORDER: promotion()}))
    engine = watched.parts.state.engine
    engine.step(JobQueued(at_s=100.0, job=job("1")))
    ended = JobEnded(at_s=110.0, job_id=JobId("1"))
    watched.watch.observe(ended, engine.step(ended))
    unknown = JobEnded(at_s=110.0, job_id=JobId("9"))
    watched.watch.observe(unknown, ())
    assert watched.parts.state.promotions.promoted[Slot.ORDER].evidence.job_count == 0


def test_a_conclusive_policy_is_to_go_with_its_figures() -> None:
    bad = promotion(fortunes=(300.0, 300.0, 300.0), job_count=4, lost_sum=3.2, predicted_frac=0.5)
    watched = Watched(Promotions(promoted={Slot.ORDER: bad}))
    ((found, reason),) = watched.watch.broken()
    assert found == bad
    assert reason == (
        "its 4 jobs lost 80% of their time, 50% was predicted; the evidence is 300, the limit 100"
    )


def test_a_job_that_waits_too_long_takes_its_policy_out() -> None:
    watched = Watched(Promotions(canary=promotion(share_frac=0.5, wait_limit_s=60.0)))
    parts = watched.parts
    held = JobStarted(at_s=40.0, job_id=JobId("held"), shares=(share("a", *range(8)),))
    parts.state.engine.step(held)
    for number, user in enumerate((OUT, IN)):
        spec = job(str(number), user_id=user, submit_s=50.0 + number)
        parts.state.engine.step(JobQueued(at_s=60.0, job=spec))
    assert not list(watched.watch.broken())
    parts.clock.at_s = 120.0
    ((_, reason),) = watched.watch.broken()
    assert reason == "job 1 has waited 69 s; no more than 60 s was predicted"
