"""A job avoids the nodes on which Slurm did not start it in time, if it can run elsewhere."""

import pytest
from tests.daemon.app.applied_site import NODES, Site

from roost_engine.domain.actions import Place
from roost_engine.domain.model import JobId
from roostd.app.actions.unstarted_pins import UnstartedPins
from roostd.slurm.rules.held_back import NO_SUCH_GPUS

FULL_S = 10.0  # engine.start_timeout_s


class Pins(UnstartedPins):
    """Those of a job of two nodes that are alike, or of which one is full."""

    def __init__(self, site: Site, gpus: int = 2) -> None:
        super().__init__(site.parts.state)
        self.site, self.state = site, site.parts.state
        self.job_id, self.place = site.submit(gpus=gpus)

    def avoided(self, at_s: float) -> dict[JobId, frozenset[str]]:
        return dict(self.state.avoided_at(at_s))


@pytest.fixture
def pins() -> Pins:
    return Pins(Site())


def later(pins: Pins, monkeypatch: pytest.MonkeyPatch, by_s: float) -> float:
    now_s = pins.state.clock.now_s() + by_s
    monkeypatch.setattr(pins.state.clock, "now_s", lambda: now_s)
    return now_s


def test_a_job_avoids_the_node_of_a_pin_that_did_not_start(
    pins: Pins, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins.note_pin(pins.place)
    now_s = later(pins, monkeypatch, FULL_S)
    pins.note_unpin(pins.job_id)
    assert pins.avoided(now_s) == {pins.job_id: set(pins.place.placement.nodes)}
    assert pins.avoided(now_s + 61.0) == {}


def test_a_pin_that_is_taken_back_early_says_nothing_of_the_node(pins: Pins) -> None:
    pins.note_pin(pins.place)
    pins.note_unpin(pins.job_id)
    assert pins.avoided(0.0) == {}


def test_a_job_avoids_the_node_of_a_pin_that_slurm_holds_at_once(pins: Pins) -> None:
    pins.note_pin(pins.place)
    pins.note_unpin(pins.job_id, NO_SUCH_GPUS)
    assert pins.avoided(0.0) == {pins.job_id: set(pins.place.placement.nodes)}


def test_a_job_that_has_started_avoids_nothing(pins: Pins, monkeypatch: pytest.MonkeyPatch) -> None:
    pins.note_pin(pins.place)
    later(pins, monkeypatch, FULL_S)
    pins.note_unpin(pins.job_id)
    pins.forget(pins.job_id)
    assert pins.avoided(0.0) == {}


def test_a_job_without_another_place_is_tried_there_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site()
    (first, _), (second, place) = site.submit(gpus=8), site.submit(gpus=8)
    assert first != second
    assert isinstance(place, Place)
    assert len(NODES) == 2
    pins = UnstartedPins(site.parts.state)
    pins.note_pin(place)
    now_s = site.parts.state.clock.now_s() + FULL_S
    monkeypatch.setattr(site.parts.state.clock, "now_s", lambda: now_s)
    pins.note_unpin(second)
    assert site.parts.state.avoided_at(0.0) == {}
