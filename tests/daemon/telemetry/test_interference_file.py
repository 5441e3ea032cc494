"""roostd.telemetry.interference_file: a round trip, and what is refused."""

import json

import pytest

from roost_engine.prediction.interference.interference_table import InterferenceTable
from roostd.ops.state_file import DAMAGED
from roostd.telemetry.interference_file import Learned, read_learned, text_of


def learned() -> Learned:
    table = InterferenceTable()
    table.observe("1 lm", [("2 bert", "nic")], 0.1, 0.2, 0.7)
    return Learned("onnx:123", table.state(), {"2 1 lm": 5.5})


def test_a_file_is_read_as_it_was_written() -> None:
    assert read_learned(text_of(learned())) == learned()
    assert read_learned(text_of(Learned())) == Learned()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", "roost.interference-file/2"),
        ("rows", [["1 lm", "", "", 1.0]]),
        ("rows", [["1 lm", "", 7, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]),
        ("rows", [["1 lm", "", "", float("nan"), 1.0, 1.0, 1.0, 1.0, 1.0]]),
        ("rows", [["1 lm", "", "", 1.0, -1.0, 1.0, 1.0, 1.0, 1.0]]),
        ("rows", [["1 lm", "", "", 1e9, 1.0, 1.0, 1.0, 1.0, 1.0]]),
        ("rows", [["1 lm", "", "", "1", 1.0, 1.0, 1.0, 1.0, 1.0]]),
        ("rows", [["lm", "", "", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]),
        ("rows", [["-1 lm", "", "", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]),
        ("rows", 5),
        ("rows", [[]] * 10_001),
        ("best", {"2 1 lm": None}),
        ("best", {"2 1 lm": 10**400}),
        ("rows", [["1 lm", "", "", 10**400, 1.0, 1.0, 1.0, 1.0, 1.0]]),
        ("best", []),
    ],
)
def test_what_is_no_table_is_refused(key: str, value: object) -> None:
    document = json.loads(text_of(learned())) | {key: value}
    with pytest.raises(DAMAGED):
        read_learned(json.dumps(document))


@pytest.mark.parametrize("text", ["", "[]", "null", "{}", "[" * 100_000])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(DAMAGED):
        read_learned(text)
