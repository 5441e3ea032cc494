"""Values of settings: addresses, absolute paths, seconds, and no silent conversion."""

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from roostd.config.values import (
    AbsolutePath,
    HostPort,
    LoopbackPort,
    Seconds,
    SecondsOrNever,
    Section,
    in_words,
    is_loopback,
)

HOST_PORT: TypeAdapter[str] = TypeAdapter(HostPort)
LOOPBACK_PORT: TypeAdapter[str] = TypeAdapter(LoopbackPort)
ABSOLUTE_PATH: TypeAdapter[Path] = TypeAdapter(AbsolutePath)
SECONDS: TypeAdapter[float] = TypeAdapter(Seconds)


def is_accepted(adapter: TypeAdapter[Any], value: object) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("0.0.0.0:7471", True),
        ("[::]:7471", True),
        ("node1:0", True),
        ("node1:65535", True),
        ("node1:65536", False),
        ("node1:-1", False),
        ("node1:", False),
        ("node1", False),
        (":7471", False),
        ("node1:http", False),
    ],
)
def test_an_address_is_a_host_and_a_port_in_range(text: str, accepted: bool) -> None:
    assert is_accepted(HOST_PORT, text) is accepted


@pytest.mark.parametrize(
    ("text", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.8.0.1:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.1:1", False),
        ("localhost.example.org:1", False),
    ],
)
def test_only_addresses_of_this_machine_are_loopback(text: str, loopback: bool) -> None:
    assert is_loopback(text) is loopback
    assert is_accepted(LOOPBACK_PORT, text) is loopback


def test_a_path_must_be_absolute() -> None:
    assert ABSOLUTE_PATH.validate_python("/var/lib/roost") == Path("/var/lib/roost")
    with pytest.raises(ValidationError, match="want an absolute path, got lib/roost"):
        ABSOLUTE_PATH.validate_python("lib/roost")


@pytest.mark.parametrize(
    ("value", "accepted"),
    [(1e-9, True), (5, True), (0.0, False), (-1.0, False), (math.inf, False), (math.nan, False)],
)
def test_seconds_are_positive_and_finite(value: float, accepted: bool) -> None:
    assert is_accepted(SECONDS, value) is accepted


def test_a_section_converts_nothing_takes_no_other_key_and_is_never_changed() -> None:
    class Sample(Section):
        count: int = 1

    for values in ({"count": "2"}, {"count": 2.0}, {"count": True}, {"cuont": 2}):
        with pytest.raises(ValidationError):
            Sample.model_validate(values)
    with pytest.raises(ValidationError, match="frozen"):
        Sample().count = 2


@pytest.mark.parametrize(
    ("value", "accepted"),
    [("never", True), (5, True), (0, False), (math.nan, False), ("soon", False), (True, False)],
)
def test_seconds_may_be_never(value: object, accepted: bool) -> None:
    class Sample(Section):
        patience_s: SecondsOrNever

    def accepts() -> bool:
        try:
            return Sample.model_validate({"patience_s": value}).patience_s > 0
        except ValidationError:
            return False

    assert accepts() is accepted


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (math.inf, "never"),
        (("a", "b"), "[a, b]"),
        ({}, "{}"),
        (2.5, "2.5"),
    ],
)
def test_values_are_shown_as_the_file_has_them(value: object, words: str) -> None:
    assert in_words(value) == words
