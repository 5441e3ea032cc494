"""earlier: records that earlier versions wrote are still read."""

import struct

import numpy as np
import pytest

from roost_engine.domain.actions import Action, ReleaseToSlurm, Wait
from roost_engine.domain.errors import JournalError
from roost_engine.domain.events import LoadsSeen
from roost_engine.domain.model import JobId
from roost_engine.domain.tier import Tier
from roost_engine.gate.timers import ClassCounts, Timers, TimersState
from roost_engine.gate.waiting_curve import WaitSample
from roost_engine.prediction.speed.job_class import TimerClass
from roost_engine.queue.learned_order import LearnedOrderConfig
from roost_formats.journal.codec import decode, encode, seal
from roost_formats.journal.records import EVENT

EIGHT_HIGH = TimerClass.of(8, 0.5)
# Written when a wait that the timers learn from was a record called "Wait".
EARLIER_STATE = (
    b'i\x01\x00\x00{"$":"TimersState","waits":['
    b'["8/high",0,{"$":"Wait","at_s":5.0,"waited_s":60.0,"is_answered":true}],'
    b'["8 GPUs",0,{"$":"Wait","at_s":5.0,"waited_s":60.0,"is_answered":true}],'
    b'["all",0,{"$":"Wait","at_s":5.0,"waited_s":60.0,"is_answered":true}]],'
    b'"counts":[["8/high",{"$":"ClassCounts","sample_count":1,"waited_count":1,'
    b'"censored_count":0,"tuned_s":5.0}]],"pins":[]}'
)


def test_a_timer_state_with_waits_under_their_earlier_name_is_read() -> None:
    sample = WaitSample(5.0, 60.0, True)
    state = decode(EARLIER_STATE, TimersState)
    assert state.waits == tuple((pool, Tier.NODE, sample) for pool in ("8/high", "8 GPUs", "all"))
    assert state.counts == (("8/high", ClassCounts(1, 1, 0, 5.0)),)


def test_the_present_version_writes_the_present_name() -> None:
    timers = Timers()
    timers.add(EIGHT_HIGH, Tier.NODE, WaitSample(5.0, 60.0, True))
    timers.count(EIGHT_HIGH, has_waited=True, is_answered=True)
    data = encode(timers.state())
    assert b'"$":"WaitSample"' in data
    assert b'"$":"Wait"' not in data
    assert decode(data, TimersState) == decode(EARLIER_STATE, TimersState)


def test_an_action_called_wait_stays_an_action() -> None:
    wait = Wait(job_id=JobId("1"), reason="waits for 8 GPUs on one node", until_s=60.0)
    assert decode(encode(wait), Action) == wait  # type: ignore[arg-type]


def test_a_release_to_slurm_under_its_earlier_name_is_read() -> None:
    head = b'{"$":"LetGo","job_id":"1","reason":"no node has 9 GPUs"}'
    action = ReleaseToSlurm(job_id=JobId("1"), reason="no node has 9 GPUs")
    assert decode(struct.pack("<I", len(head)) + head, Action) == action  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["Tick", "wait", "WaitSamples"])
def test_a_name_that_the_expected_type_never_had_is_refused(name: str) -> None:
    head = f'{{"$":"{name}","at_s":5.0,"waited_s":60.0,"is_answered":true}}'.encode()
    with pytest.raises(JournalError, match=f"want WaitSample, got '{name}'"):
        decode(struct.pack("<I", len(head)) + head, WaitSample)


def test_a_wait_action_is_no_wait_sample() -> None:
    action = Wait(job_id=JobId("1"), reason="", until_s=None)
    with pytest.raises(JournalError, match="cannot be read"):
        decode(encode(action), WaitSample)


@pytest.mark.parametrize("is_written", [False, True])
def test_an_earlier_learned_order_trusts_predictions_always(is_written: bool) -> None:
    text = encode(LearnedOrderConfig(ageing=3.0, earned_trust=True))[8:]
    if not is_written:
        text = text.replace(b',"earned_trust":true', b"")
    read = decode(struct.pack("<I", len(text)) + text, LearnedOrderConfig)
    assert read == LearnedOrderConfig(ageing=3.0, earned_trust=is_written)


def test_the_load_of_one_node_is_read_as_that_of_several() -> None:
    """There was an event for each node."""
    load = np.arange(8, dtype=np.float32).reshape(2, 4)
    head = b'{"$":"LoadSeen","at_s":1.5,"name":"n1","load":{"dtype":"<f4","shape":[2,4]}}'
    event = decode(seal(head, [load.tobytes()]), EVENT)
    assert isinstance(event, LoadsSeen)
    assert (event.at_s, event.names) == (1.5, ("n1",))
    np.testing.assert_array_equal(event.load, load[None])
    assert decode(encode(event), LoadsSeen).names == ("n1",)
