"""A few seconds of fuzzing, and proof that a broken reader is found."""

import time

import pytest
from tests.fuzz import fuzz
from tests.fuzz.targets import Target


def test_ten_seconds_find_nothing() -> None:
    tried, found = fuzz.fuzz(10.0, 7, lambda text: None)
    assert not found, "\n".join(map(str, found))
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


def test_an_input_that_breaks_a_reader_once_only_is_shown_with_its_seed() -> None:
    broken: list[bytes] = []

    def moody(data: bytes) -> None:
        if b"[[" in data and not broken:
            broken.append(data)
            raise KeyError("[[")

    found = fuzz.fuzz_once(Target("moody", moody, (b"a, b, [[c]]",)), 200, 11)
    assert found is not None
    assert (found.data, found.seed) == (broken[0], 11)
    assert "once only: KeyError" in str(found)
    assert repr(broken[0]) in str(found)


def test_a_reader_that_was_slow_once_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "_LIMIT_S", 0.05)
    left_s = [0.2]

    def slow_at_first(data: bytes) -> None:
        end_s = time.process_time() + (left_s.pop() if left_s else 0.0)
        while time.process_time() < end_s:
            pass

    fuzz.check(Target("slow", slow_at_first, (b"",)), b"")
    assert not left_s


def test_a_reader_that_takes_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "_LIMIT_S", 0.05)

    def slow(data: bytes) -> None:
        end_s = time.process_time() + 0.2
        while time.process_time() < end_s:
            pass

    with pytest.raises(fuzz.Broken, match="took"):
        fuzz.check(Target("slow", slow, (b"",)), b"")
