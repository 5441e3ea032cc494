"""A pinned job that Slurm holds is placed once more, and then left to plain Slurm."""

from dataclasses import replace

import pytest
from tests.daemon.app.parts import Parts

from roost_engine.domain.events import Event, JobQueued, Tick
from roost_engine.domain.model import JobId
from roost_engine.job_record import JobState
from roost_engine.testing.builders import job
from roost_slurm.text.squeue import QueuedJob
from roostd.app.polls.held_pins import HeldPins

HELD = QueuedJob(
    number=7,
    reason="BadConstraints",
    priority=0,
    admin_comment="roost:lease was=TresPerNode:gres/gpu:2",
)
PAUSE_S = 3.0  # longer than engine.refusal_backoff_s


class Site:
    """A job that is placed, whatever Slurm refuses."""

    def __init__(self) -> None:
        self.parts, self.job_id = Parts("n1", "n2"), JobId("7")
        self.state, self.engine = self.parts.state, self.parts.state.engine
        self.handed_over: list[tuple[JobId, str]] = []
        self.pins = HeldPins(self.state, self._emit, lambda *one: self.handed_over.append(one))
        self.state.can_pin_again = True
        self.engine.step(JobQueued(at_s=100.0, job=job("7", gpus=2)))

    def _emit(self, event: Event) -> None:
        self.parts.emitted.append(event)
        self.engine.step(event)

    def see(self, jobs: list[QueuedJob], ago_s: float = 0.0) -> None:
        """Show the jobs of a poll that asked Slurm that long ago."""
        self.pins.see(jobs, self.parts.clock.at_s - ago_s)

    def pause(self) -> None:
        """Let the pause after a refusal pass."""
        self.parts.clock.at_s += PAUSE_S
        self.engine.step(Tick(at_s=self.parts.clock.at_s))


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_held_job_is_placed_again_at_once_and_then_left_to_slurm(site: Site) -> None:
    site.see([HELD])
    assert site.engine.record(site.job_id).state is JobState.WAITING
    site.see([HELD])  # its pin is being taken back
    assert (len(site.parts.emitted), site.handed_over) == (1, [])

    site.pause()
    assert site.engine.record(site.job_id).state is JobState.PLACING
    site.see([HELD], ago_s=2.0)  # shows the first pin
    assert not site.handed_over
    site.see([HELD])
    ((job_id, why),) = site.handed_over
    assert (job_id, len(site.parts.emitted)) == (site.job_id, 1)
    assert "BadConstraints" in why


@pytest.mark.parametrize(
    "changed",
    [
        {"priority": 1},
        {"reason": "JobHeldUser"},
        {"admin_comment": "roost:lease"},
    ],
)
def test_any_other_job_is_left_alone(site: Site, changed: dict[str, object]) -> None:
    site.see([replace(HELD, **changed)])  # type: ignore[arg-type]
    assert site.parts.emitted == []


def test_a_pin_is_final_on_the_oldest_release(site: Site) -> None:
    site.state.can_pin_again = False
    site.see([HELD])
    assert site.parts.emitted == []


def test_a_job_that_has_left_the_queue_starts_anew(site: Site) -> None:
    site.see([HELD])
    site.see([])
    site.pause()
    site.see([HELD])
    assert (len(site.parts.emitted), site.handed_over) == (2, [])
