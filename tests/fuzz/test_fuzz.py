"""A few seconds of fuzzing, and proof that a broken reader is found."""

import time

import pytest
from tests.fuzz import fuzz
from tests.fuzz.targets import Target


def test_ten_seconds_find_nothing() -> None:
    tried, found = fuzz.fuzz(10.0, 7, lambda text: None)
    assert [(one.target, one.problem, one.data[:200]) for one in found] == []
    assert tried > 0


def test_inputs_that_once_broke_a_reader_break_it_no_more() -> None:
    with fuzz.all_targets() as every:
        assert [one for target in every for one in fuzz.kept_findings(target)] == []


def _is_fragile(data: bytes) -> None:
    if b"[[" in data:
        raise KeyError("[[")


def test_an_unexpected_error_is_found_and_made_small() -> None:
    found = fuzz.fuzz_once(Target("fragile", _is_fragile, (b"a, b, [c], d",)), 2_000, 1)
    assert found is not None
    assert found.problem.startswith("KeyError")
    assert b"[[" in found.data


def test_an_expected_error_is_no_finding() -> None:
    target = Target("fragile", _is_fragile, (b"a, b, [[c]]",), (KeyError,))
    assert fuzz.fuzz_once(target, 200, 1) is None


def test_a_reader_that_takes_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "_LIMIT_S", 0.05)

    def slow(data: bytes) -> None:
        end_s = time.process_time() + 0.2
        while time.process_time() < end_s:
            pass

    with pytest.raises(fuzz.Broken, match="took"):
        fuzz.check(Target("slow", slow, (b"",)), b"")
