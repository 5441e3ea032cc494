"""The chain of the audit log: every change to a file of lines is found, and where."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_formats.audit.chain import START, chained, check, hash_of, hash_of_unchained

OLD = b'{"at": "2026", "action": "pin_timer"}\n'


def log(*names: str, after: str = START) -> bytes:
    """A log of one line for each name."""
    lines = []
    for name in names:
        line, after = chained(after, {"action": "pin_timer", "by": name})
        lines.append(f"{line}\n")
    return "".join(lines).encode()


def test_a_line_stays_json_and_carries_both_hashes() -> None:
    line, digest = chained(START, {"by": 'eve", "chain": "', "n": None})
    assert json.loads(line) == {"by": 'eve", "chain": "', "n": None, "after": START} | {
        "chain": digest
    }
    assert hash_of(line) == digest
    assert hash_of('{"by": "eve"}') is None


def test_a_whole_log_has_no_breaks() -> None:
    text = log("ann", "bob", "eve")
    found = check(text)
    assert (found.line_count, found.unchained_count, found.after, found.breaks) == (3, 0, START, ())
    assert found.last_hash == hash_of(text.decode().splitlines()[-1])


def test_an_empty_log_is_whole() -> None:
    assert (check(b"").line_count, check(b"").last_hash, check(b"").breaks) == (0, "", ())
    assert check(b"", START).last_hash == START  # the next file continues with it


@pytest.mark.parametrize(
    ("damage", "line_number", "problem"),
    [
        (lambda rows: [rows[0], rows[2]], 2, "does not follow the line before it"),
        (lambda rows: [rows[1], rows[0], rows[2]], 2, "does not follow the line before it"),
        (lambda rows: [rows[0], rows[1].replace(b"bob", b"ann"), rows[2]], 2, "was changed"),
        (lambda rows: [rows[0], b'{"by": "bob"}\n', rows[2]], 2, "its hash is gone"),
        (lambda rows: [rows[0], b"\n", *rows[1:]], 2, "is no line of this log"),
        (lambda rows: [*rows[:2], rows[2][:-1]], 3, "is cut"),
    ],
    ids=["removed", "moved", "changed", "unchained", "empty", "cut"],
)
def test_damage_is_named_with_its_line(damage, line_number, problem) -> None:  # type: ignore[no-untyped-def]
    rows = log("ann", "bob", "eve").splitlines(keepends=True)
    first = check(b"".join(damage(rows))).breaks[0]
    assert first.line_number == line_number
    assert problem in first.problem


def test_lines_of_an_earlier_version_are_covered_as_a_whole() -> None:
    text = OLD * 2 + log("ann", after=hash_of_unchained(OLD * 2))
    found = check(text)
    assert (found.unchained_count, found.breaks) == (2, ())
    assert [one.line_number for one in check(text.replace(b"2026", b"2025", 1)).breaks] == [3]


def test_a_first_line_of_deep_brackets_is_damage() -> None:
    """A crash of the reader (RecursionError) is no finding."""
    (found,) = check(b"[" * 100_000 + b"\n" + log("ann")).breaks
    assert found.line_number == 1


def test_a_rotated_file_continues_where_the_one_before_ended() -> None:
    before = check(log("ann", "bob"))
    after = log("eve", after=before.last_hash)
    assert check(after, before.last_hash).breaks == ()
    assert check(after).after == before.last_hash
    assert check(log("eve"), before.last_hash).breaks[0].line_number == 1


@given(st.data())
def test_any_flipped_bit_is_found(data: st.DataObject) -> None:
    text = log("ann", "bob", "eve")
    position = data.draw(st.integers(0, len(text) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(text)
    damaged[position] ^= 1 << bit
    found = check(bytes(damaged))
    # The head file has the last hash, so a changed last line with a whole new chain is found too.
    assert found.breaks or found.last_hash != check(text).last_hash or found.after != START


@given(st.binary(max_size=400))
def test_any_bytes_give_findings(text: bytes) -> None:
    assert check(text).line_count >= 0
