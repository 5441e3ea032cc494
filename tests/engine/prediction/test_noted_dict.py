"""A dict that notes which of its keys have changed."""

import pytest

from roost_engine.prediction import noted_dict
from roost_engine.prediction.noted_dict import NotedDict


def test_what_it_begins_with_has_not_changed() -> None:
    table = NotedDict({"a": 1})
    assert table == {"a": 1}
    assert table.take_notes() == ()


def test_changes_are_noted_once_in_the_order_of_the_last_ones() -> None:
    table = NotedDict({"a": 1, "b": 2, "c": 3})
    table["d"] = 4
    table["a"] = 5
    del table["b"]
    assert table.discard("c") == 3
    assert table.discard("never") is None
    table.note("d")
    assert table.take_notes() == ("a", "b", "c", "d")
    assert table.take_notes() == ()
    assert table == {"a": 5, "d": 4}


def test_notes_that_are_never_taken_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noted_dict, "MOST_NOTED", 3)
    table = NotedDict[str, int]()
    for key in "abcd":
        table[key] = 1
    assert len(table._noted) <= 3
    assert table.take_notes() is None
    table["e"] = 1
    assert table.take_notes() == ("e",)
