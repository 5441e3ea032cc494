"""The cap on waits, on an in-memory Slurm: which jobs Slurm is asked about, and what follows."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.daemon.app.parts import Parts
from tests.daemon.running import config, running

from roost_engine.domain.errors import SlurmTimeout
from roost_engine.domain.events import Event, PlacementRefused
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobRecord, JobState
from roost_engine.testing.builders import job, node
from roost_slurm.text.commands import Argv
from roost_slurm.text.shadow_question import FirstStart
from roostd.app.polls import shadow_questions, snapshot_reading
from roostd.app.polls.shadow_questions import ShadowQuestions, is_deferred
from roostd.app.polls.slurm_watch import SlurmWatch
from roostd.config.config import Config
from roostd.ops.metrics import Metrics
from roostd.slurm.port import QuestionUnanswered
from roostd.slurm.queue_view import PendingJob
from roostd.state import BeyondSlurm, UnmanagedJob
from roostd.testing.slurm_faults import Fault
from roostd.testing.slurm_stand_in import SlurmStandIn

HAND_OVER_S, POLL_S = 30.0, 9.0  # a question in 3 s


class Site:
    """A node of 8 GPUs, all failed by their probe's word, and jobs that wait for them."""

    def __init__(self, folder: Path) -> None:
        self.parts = Parts()
        self.state, self.clock = self.parts.state, self.parts.clock
        self.configure()
        self.slurm = SlurmStandIn([node("n1", usable=False)], now=self.clock.now_s)
        self.slurm.first_starts = self._answer
        self.in_s: float | None = 0.0
        self.asked: list[Argv] = []
        self.released = set[JobId]()
        self.metrics = Metrics(CollectorRegistry())
        self.watch = SlurmWatch(
            self.slurm, self.state, self.metrics, self._emit, self._release, folder
        )
        self.questions = ShadowQuestions(self.slurm, self.state, self.metrics, self.watch)

    def configure(self, **slurm: Any) -> None:
        given = {"hand_over_s": HAND_OVER_S, "poll_interval_s": POLL_S} | slurm
        self.state.config = Config.model_validate({"mode": "enforce", "slurm": given})

    def _answer(self, question: Argv) -> FirstStart | None:
        self.asked.append(question)
        start_s = self.clock.now_s() + (self.in_s or 0.0)
        return None if self.in_s is None else FirstStart(start_s, frozenset({"n1"}))

    def _emit(self, event: Event) -> None:
        self.state.engine.step(event)

    def _release(self, job_ids: Sequence[JobId]) -> None:
        self.released.update(job_ids)

    async def submit(self, **asked: Any) -> JobId:
        (job_id,) = self.slurm.submit(**({"gpus_per_node": 2} | asked))
        await self.watch.first_poll()
        return job_id

    async def pass_time(self, seconds: int) -> None:
        """A turn each second."""
        for _ in range(seconds):
            self.clock.at_s += 1.0
            await self.questions.turn()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"roost_{name}", labels)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_a_job_that_slurm_could_start_is_handed_over_in_time(site: Site) -> None:
    job_id = await site.submit()
    await site.pass_time(3)
    assert (len(site.asked), site.value("jobs_beyond_slurm")) == (1, 1)
    await site.pass_time(round(HAND_OVER_S) - 1)
    await site.watch.first_poll()
    assert site.released == set()

    await site.pass_time(3)
    await site.watch.first_poll()

    assert site.released == {job_id}
    assert site.watch.leased() == ()
    record = site.state.engine.record(job_id)
    assert record.state is JobState.RELEASED
    assert record.reason.startswith("left to Slurm, which could have started it 3")
    left = UnmanagedJob(reason=record.reason, is_blocked=False)
    assert site.state.unmanaged[job_id] == left
    assert site.value("hand_overs_total", cause="shadow") == 1
    assert site.value("wait_beyond_slurm_seconds_count") == 1
    await site.pass_time(10)
    assert site.value("hand_overs_total", cause="shadow") == 1
    assert site.value("jobs_beyond_slurm") == 0


async def test_a_long_queue_is_gone_through_beside_the_event_loop(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked_in = list[threading.Thread]()

    def rank(one: PendingJob) -> tuple[int, int, int]:
        ranked_in.append(threading.current_thread())
        return of_slurm(one)

    of_slurm = shadow_questions._slurm_rank
    monkeypatch.setattr(shadow_questions, "_slurm_rank", rank)
    await site.submit()
    await site.pass_time(1)
    assert set(ranked_in) == {threading.main_thread()}

    monkeypatch.setattr(snapshot_reading, "LONG_QUEUE", 0)
    ranked_in.clear()
    await site.pass_time(3)
    assert ranked_in
    assert threading.main_thread() not in ranked_in
    assert len(site.asked) == 1


async def test_questions_of_jobs_that_have_left_are_forgotten(site: Site) -> None:
    stays, leaves = await site.submit(), await site.submit()
    await site.pass_time(3)
    assert set(site.questions._questions) == {int(stays), int(leaves)}

    site.slurm.end(leaves)
    await site.watch.first_poll()
    await site.pass_time(1)

    assert set(site.questions._questions) == {int(stays)}


async def test_operators_are_told_of_the_longest_wait_that_plain_slurm_would_not_have(
    site: Site,
) -> None:
    site.in_s = None
    job_id = await site.submit()
    await site.pass_time(6)
    assert site.state.beyond_slurm == BeyondSlurm()
    site.in_s = 0.0
    await site.pass_time(12)
    told = site.state.beyond_slurm
    assert (told.job_id, told.beyond_cap_count) == (job_id, 0)
    assert 6.0 <= told.longest_s <= 12.0

    site.state.engine.record(job_id).state = JobState.PLACING  # so that it is not handed over
    await site.pass_time(round(HAND_OVER_S + POLL_S))
    told = site.state.beyond_slurm
    assert told.beyond_cap_count == 1
    assert told.longest_s > HAND_OVER_S + POLL_S

    site.slurm.end(job_id)
    await site.watch.first_poll()
    await site.pass_time(1)
    assert site.state.beyond_slurm == replace(told, beyond_cap_count=0)
    site.configure(shadow_questions=False)
    await site.pass_time(1)
    assert site.state.beyond_slurm is None


@pytest.mark.parametrize("in_s", [None, 600.0])
async def test_a_job_that_slurm_would_not_start_either_waits(
    site: Site, in_s: float | None
) -> None:
    site.in_s = in_s
    await site.submit()
    await site.pass_time(60)
    await site.watch.first_poll()
    assert len(site.asked) == 20
    assert (site.released, site.value("jobs_beyond_slurm")) == (set(), 0)


async def test_slurm_is_not_asked_about_jobs_that_wait_for_something_else(site: Site) -> None:
    held = await site.submit()
    site.slurm.hold(held)
    await site.submit(begin_epoch_s=site.clock.at_s + 500.0)
    await site.watch.first_poll()
    await site.pass_time(20)
    assert site.asked == []


async def test_one_job_of_each_request_is_looked_at_behind_the_first_jobs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roostd.app.polls.shadow_questions._MOST_JOBS", 3)
    site.in_s = None
    for _ in range(4):
        await site.submit()
    for gpu_count in (3, 4, 4, 5):
        await site.submit(gpus_per_node=gpu_count)
    await site.pass_time(40)
    gres = [next(word for word in argv if "gpu" in word) for argv in site.asked]
    assert len(set(gres)) == 4


async def test_slurm_is_not_asked_where_the_site_does_not_want_it(site: Site) -> None:
    site.configure(shadow_questions=False)
    await site.submit()
    await site.pass_time(20)
    assert site.asked == []


async def test_jobs_that_ask_for_the_same_take_one_question(site: Site) -> None:
    jobs = {await site.submit() for _ in range(5)}
    await site.pass_time(36)
    await site.watch.first_poll()
    assert len(site.asked) == 11  # one each 3 s
    assert site.released == jobs


async def test_a_start_by_roost_ends_the_wait(site: Site) -> None:
    await site.submit()
    await site.pass_time(13)  # asked first 3 s after the submission
    site.slurm.set_node(node("n1"))
    site.slurm.update(JobId("1"), StartTime="now")
    await site.watch.first_poll()
    await site.pass_time(1)
    assert site.value("wait_beyond_slurm_seconds_sum") == pytest.approx(11.0)
    assert site.value("hand_overs_total", cause="shadow") is None


async def test_a_job_that_slurm_is_being_asked_to_start_is_not_handed_over_yet(site: Site) -> None:
    job_id = await site.submit()
    await site.pass_time(10)
    site.slurm.set_node(node("n1"))
    await site.watch.first_poll()
    assert site.state.engine.record(job_id).state is JobState.PLACING
    await site.pass_time(50)
    assert site.value("hand_overs_total", cause="shadow") is None

    refused = PlacementRefused(at_s=site.clock.at_s, job_id=job_id, reason="busy")
    site.state.engine.step(refused)
    await site.pass_time(1)
    assert site.value("hand_overs_total", cause="shadow") == 1


async def test_after_a_question_without_an_answer_slurm_is_left_alone_for_a_minute(
    site: Site,
) -> None:
    await site.submit()
    site.slurm.inject("first_start", Fault.LOST_BEFORE)
    await site.pass_time(62)
    assert site.asked == []
    assert site.value("slurm_failures_total", operation="question") == 1
    await site.pass_time(3)
    assert len(site.asked) == 1


async def test_an_unanswered_question_is_an_error_of_slurm_with_its_text() -> None:
    error = QuestionUnanswered("unshare: Operation not permitted\n")
    assert str(error).endswith("no answer: unshare: Operation not permitted")
    assert not isinstance(error, SlurmTimeout)


def deferred(**values: Any) -> JobRecord:
    given: dict[str, Any] = {"declined_s": (90.0, None), "until_s": 200.0} | values
    return JobRecord(spec=job("1"), state=JobState.WAITING, queued_s=80.0, **given)


@pytest.mark.parametrize(
    ("values", "is_so"),
    [
        ({}, True),
        ({"until_s": None}, False),
        ({"until_s": 99.0}, False),  # the gate's time is over
        ({"declined_s": (None, None)}, False),
        ({"not_before_s": 200.0}, False),  # a pause after a refusal
        ({"hand_over_at_s": 200.0}, False),  # waits for the only GPUs of a job
    ],
)
def test_only_a_wait_that_a_gate_has_told_of_is_a_deferral(
    values: dict[str, Any], is_so: bool
) -> None:
    assert is_deferred(deferred(**values), 100.0) == is_so


async def test_a_running_daemon_hands_over_what_slurm_could_start(tmp_path: Path) -> None:
    slurm = SlurmStandIn([node("n1", usable=False)])
    slurm.first_starts = lambda question: FirstStart(0.0, frozenset({"n1"}))
    fast = {"poll_interval_s": 0.2, "lease_s": 60.0, "hand_over_s": 0.5}
    async with running(slurm, config(tmp_path, slurm=fast)) as daemon:
        (job_id,) = slurm.submit(gpus_per_node=1)
        await daemon.until(
            lambda: slurm.admin_comment(job_id) == "roost:let-go", "the job is Slurm's"
        )
        assert daemon.count("roost_hand_overs_total", cause="shadow") == 1
