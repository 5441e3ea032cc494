"""roostd.app.observation.pair_reporter: the engine learns of pairs while it runs."""

import math

from tests.daemon.app.parts import Parts

from roost_engine.domain.events import Event, PairsSeen
from roost_engine.engine import Engine, EngineConfig
from roost_engine.plugins.plugins import Plugins, Policies
from roost_engine.scoring.neighbours import NeighbourScore
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.records import EVENT
from roost_formats.models.score import load_score_policy
from roostd.app.observation.pair_reporter import PairReporter


def test_changes_are_told_once_a_minute_and_a_new_run_begins_again() -> None:
    parts, told = Parts("n1"), list[Event]()
    score, _ = load_score_policy("neighbours")
    assert isinstance(score, NeighbourScore)
    state, book = parts.state, parts.state.progress
    state.engine = Engine(EngineConfig(), Policies(score=score))
    book.use_model(score.name)
    plugins = [Plugins()]
    teller = PairReporter(state, lambda: plugins[0], told.append)

    def learn(kind: str) -> None:
        book.table.observe(kind, [("2 foe", "nic")], 0.1, 0.2, math.exp(-0.6), "node")
        book.report_count += 1

    learn("1 lm")
    teller.poll()
    assert told == []  # the minute is not over
    parts.clock.at_s += 61.0
    teller.poll()
    (first,) = told
    assert isinstance(first, PairsSeen)
    assert [pair.kind for pair in first.pairs] == ["1 lm"]
    for event in told:
        state.engine.step(event)
    assert score.corrections.knows("1 lm")
    assert decode(encode(first), EVENT) == first  # as a replay reads it

    parts.clock.at_s += 61.0
    teller.poll()
    assert len(told) == 1  # no report since
    learn("1 vgg")
    teller.poll()
    assert [pair.kind for pair in told[-1].pairs] == ["1 vgg"]  # type: ignore[union-attr]

    plugins[0] = Plugins(neighbours=())
    parts.clock.at_s += 61.0
    plugins[0] = Plugins(neighbours=first.pairs)
    teller.poll()
    assert [pair.kind for pair in told[-1].pairs] == ["1 vgg"]  # type: ignore[union-attr]
    assert len(told) == 3


def test_nothing_is_told_where_neighbours_do_not_decide() -> None:
    parts, told = Parts("n1"), list[Event]()
    teller = PairReporter(parts.state, Plugins, told.append)
    parts.state.progress.report_count += 1
    parts.clock.at_s += 61.0
    teller.poll()
    assert told == []
