"""What a job is told of its promised start."""

from math import inf

from roost_engine.domain.promise import Promise


def test_a_promise_says_by_when_unless_it_was_taken_back() -> None:
    assert Promise(first_s=5.0, start_s=9.0).until_s == 9.0
    assert Promise(first_s=5.0, start_s=inf).until_s is None


def test_a_moved_promise_says_why() -> None:
    kept, moved = Promise(first_s=5.0, start_s=5.0), Promise(first_s=5.0, start_s=9.0, why="late")
    assert kept.added_to("waits") == "waits; nodes are reserved for it"
    assert moved.added_to("waits") == "waits; late"
