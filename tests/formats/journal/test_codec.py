"""Records of the journal: values come back exactly as they were, damage is told from novelty."""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest
from numpy.typing import NDArray

from roost_engine.domain.errors import JournalError
from roost_formats.journal.codec import UnknownRecord, check_form, decode, encode


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    at_s: float


@dataclass(frozen=True)
class Other:
    text: str


@dataclass(frozen=True)
class Outer:
    number: float
    inner: Inner | Other | None
    names: tuple[str, ...]
    pair: tuple[int, str]
    by_rank: Mapping[int, Inner]
    colour: Colour
    added_later: int = 7


OUTER = Outer(0.1 + 0.2, Other("ü\n"), ("a", "b"), (3, "c"), {2: Inner(1.0)}, Colour.RED)


@dataclass(frozen=True, eq=False)
class Arrays:
    first: NDArray[np.float32]
    second: NDArray[np.int64]


def changed(record: object, **fields: object) -> bytes:
    """The bytes of a record with some of its fields changed, None taking a field away."""
    data = encode(record)
    (length,) = struct.unpack_from("<I", data)
    plain = json.loads(data[4 : 4 + length]) | fields
    head = json.dumps({key: value for key, value in plain.items() if value is not None}).encode()
    return struct.pack("<I", len(head)) + head + data[4 + length :]


def test_a_record_comes_back_as_it_was() -> None:
    assert decode(encode(OUTER), Outer) == OUTER


@pytest.mark.parametrize("number", [0.1, 1e308, 5e-324, -0.0, math.inf])
def test_floats_come_back_bit_for_bit(number: float) -> None:
    read = decode(encode(Inner(number)), Inner).at_s
    assert struct.pack("<d", read) == struct.pack("<d", number)


def test_a_number_that_is_none_comes_back_as_such() -> None:
    assert math.isnan(decode(encode(Inner(math.nan)), Inner).at_s)


def test_arrays_come_back_in_their_order_with_type_and_shape() -> None:
    first = np.array([[1.5, math.nan], [3.0, 4.0]], dtype=np.float32)
    second = np.arange(6, dtype=np.int64)[::2]  # not contiguous

    read = decode(encode(Arrays(first, second)), Arrays)

    assert (read.first.dtype, read.second.dtype) == (np.dtype(np.float32), np.dtype(np.int64))
    np.testing.assert_array_equal(read.first, first)
    np.testing.assert_array_equal(read.second, [0, 2, 4])


def test_an_array_that_is_cut_short_is_damage() -> None:
    data = encode(Arrays(np.zeros(2, np.float32), np.zeros(2, np.int64)))
    with pytest.raises(JournalError, match="array is cut short"):
        decode(data[:-1], Arrays)


def test_a_field_with_a_default_may_be_missing() -> None:
    assert decode(changed(OUTER, added_later=None), Outer) == OUTER


def test_a_field_without_a_default_may_not_be_missing() -> None:
    with pytest.raises(JournalError, match="number"):
        decode(changed(OUTER, number=None), Outer)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"added_much_later": 1}, "Outer has no field 'added_much_later'"),
        ({"colour": "green"}, "'green' is not a valid Colour"),
        ({"inner": {"$": "Third"}}, "unknown record 'Third'"),
    ],
)
def test_what_only_a_later_version_can_have_written_is_no_damage(
    fields: dict[str, object], problem: str
) -> None:
    with pytest.raises(UnknownRecord, match=problem):
        decode(changed(OUTER, **fields), Outer)


def test_a_record_of_another_type_than_expected_is_damage() -> None:
    with pytest.raises(JournalError, match="want Inner, got 'Other'") as caught:
        decode(encode(Other("")), Inner)
    assert not isinstance(caught.value, UnknownRecord)


@pytest.mark.parametrize("value", [object(), {1, 2}, (Inner(1.0), b"bytes")])
def test_what_has_no_encoding_is_refused(value: object) -> None:
    with pytest.raises(JournalError, match="has no encoding"):
        encode(value)


@pytest.mark.parametrize("data", [b"", b"\1\0", b"\4\0\0\0{{{{", b"\xff\0\0\0{}x"])
def test_bytes_without_the_form_of_a_record_are_found_without_knowing_its_type(
    data: bytes,
) -> None:
    check_form(encode(OUTER))
    with pytest.raises(JournalError, match="record cannot be read"):
        check_form(data)
