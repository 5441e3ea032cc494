"""LoadsSeen: the load of several nodes decides as the same loads do one after the other."""

from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.busy_day import busy_day

from roost_engine.domain.events import Event, LoadsSeen, NodeSeen, Tick
from roost_engine.engine import Engine, EngineConfig
from roost_engine.gate.delay import DelayGate
from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import delay_policies
from roost_formats.journal.codec import encode

LOUDEST = np.array([1.0, 1.0, 5e10, 4e11], dtype=np.float32)
DAYS = {seed: busy_day(seed).events for seed in range(3)}


def with_loads(events: Sequence[Event], random: Random) -> list[Event]:
    """Before some events, the load of some nodes; time has passed by then, so nothing is due."""
    names = [event.node.name for event in events if isinstance(event, NodeSeen)]
    told = list[Event]()
    for event in events:
        if random.random() < 0.2:
            some = tuple(random.sample(names, random.randint(1, len(names))))
            loads = [[[random.random() for _ in range(4)] for _ in range(8)] for _ in some]
            load = np.array(loads, dtype=np.float32) * LOUDEST
            told.append(Tick(at_s=event.at_s))
            told.append(LoadsSeen(at_s=event.at_s, names=some, load=load))
        told.append(event)
    return told


def one_by_one(event: Event) -> Sequence[Event]:
    if not isinstance(event, LoadsSeen):
        return [event]
    return [
        LoadsSeen(at_s=event.at_s, names=(name,), load=load[None])
        for name, load in zip(event.names, event.load, strict=True)
    ]


@settings(max_examples=12)  # each a day of 300 events, twice
@given(st.sampled_from(sorted(DAYS)), st.integers(0, 1 << 32), st.booleans())
def test_the_same_actions_follow(seed: int, load_seed: int, delays: bool) -> None:
    def engine() -> Engine:
        policies = delay_policies(DelayGate()) if delays else Policies()
        return Engine(EngineConfig(patience_s=120.0), policies)

    together, alone = engine(), engine()
    for event in with_loads(DAYS[seed], Random(load_seed)):
        actions = together.step(event)
        parts = [action for part in one_by_one(event) for action in alone.step(part)]
        assert encode(actions) == encode(tuple(parts))
