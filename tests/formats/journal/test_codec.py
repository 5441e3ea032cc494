"""Records of the journal: values come back exactly as they were, damage is told from novelty."""

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roost_engine.domain.errors import JournalError
from roost_formats.journal.codec import UnknownRecord, check_form, decode, encode, seal

HAS_CHECKSUM = 1 << 31


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
    head, arrays = parts(data)
    plain = json.loads(head) | fields
    head = json.dumps({key: value for key, value in plain.items() if value is not None}).encode()
    return seal(head, [arrays])


def parts(data: bytes) -> tuple[bytes, bytes]:
    """The JSON text of a record, and its arrays."""
    (length,) = struct.unpack_from("<I", data)
    end = 8 + (length & ~HAS_CHECKSUM)
    return data[8:end], data[end:]


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
    head, arrays = parts(data)
    with pytest.raises(JournalError, match="array is cut short"):
        decode(seal(head, [arrays[:-1]]), Arrays)


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


SAMPLES = (OUTER, Arrays(np.arange(5, dtype=np.float32), np.array([1, 2], dtype=np.int64)))


@given(st.sampled_from(SAMPLES).map(encode), st.data())
def test_any_bits_that_flip_in_a_record_are_detected(data: bytes, draw: st.DataObject) -> None:
    bits = draw.draw(st.sets(st.integers(0, 8 * len(data) - 1), min_size=1, max_size=3))
    damaged = bytearray(data)
    for bit in bits:
        damaged[bit // 8] ^= 1 << bit % 8

    with pytest.raises(JournalError):
        check_form(bytes(damaged))


@given(st.sampled_from(SAMPLES).map(encode), st.data())
def test_a_record_that_is_cut_is_detected(data: bytes, draw: st.DataObject) -> None:
    with pytest.raises(JournalError):
        check_form(data[: draw.draw(st.integers(0, len(data) - 1))])


def test_a_record_of_format_1_has_no_checksum_and_is_read() -> None:
    head, arrays = parts(encode(OUTER))
    assert decode(struct.pack("<I", len(head)) + head + arrays, Outer) == OUTER


def test_a_flipped_digit_is_damage_and_not_another_number() -> None:
    with pytest.raises(JournalError, match="checksum"):
        decode(encode(Inner(1.5)).replace(b"1.5", b"1.7"), Inner)
