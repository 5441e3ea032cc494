"""Limits of what a caller may ask: token buckets, and connections by the files there are."""

import pytest

from roostd.ops.files import RESERVED_FILE_COUNT
from roostd.rpc.access.limits import (
    OPERATOR_CONNECTION_LIMIT,
    ChannelOptions,
    RateLimit,
    operator_options,
    probe_options,
)

CONNECTIONS = "grpc.max_allowed_incoming_connections"


def admitted_count(limit: RateLimit, at_s: float, tries: int = 100) -> int:
    return sum(limit.admit(at_s) for _ in range(tries))


def test_a_burst_is_admitted_and_then_the_steady_rate() -> None:
    limit = RateLimit(rate_per_s=2.0, burst_count=5.0)
    assert admitted_count(limit, 1_000.0) == 5
    assert admitted_count(limit, 1_000.4) == 0  # 0.8 of one
    assert admitted_count(limit, 1_000.5) == 1
    assert admitted_count(limit, 1_002.0) == 3


def test_a_long_pause_saves_up_no_more_than_one_burst() -> None:
    limit = RateLimit(rate_per_s=2.0, burst_count=5.0)
    assert admitted_count(limit, 0.0) == 5
    assert admitted_count(limit, 1e6) == 5


def test_a_clock_that_stands_or_goes_back_admits_nothing_more() -> None:
    limit = RateLimit(rate_per_s=2.0, burst_count=5.0)
    admitted_count(limit, 100.0)
    assert admitted_count(limit, 100.0) == 0
    assert admitted_count(limit, 50.0) == 0


def option(options: ChannelOptions, name: str) -> int:
    (value,) = (value for key, value in options if key == name)
    return value


@pytest.mark.parametrize(
    ("node_count", "file_limit", "connection_count"),
    [
        (100, 1 << 20, 456),  # two a node, and 256 to spare
        (10_000, 4_096, 4_096 - RESERVED_FILE_COUNT),
        (100, 0, 1),  # never none at all: 0 would mean no limit
    ],
)
def test_probes_may_connect_as_far_as_there_are_files(
    node_count: int, file_limit: int, connection_count: int
) -> None:
    assert option(probe_options(node_count, file_limit), CONNECTIONS) == connection_count


def test_operators_may_send_short_questions_and_get_long_answers() -> None:
    options = operator_options()
    assert option(options, CONNECTIONS) == OPERATOR_CONNECTION_LIMIT
    asked = option(options, "grpc.max_receive_message_length")
    assert asked < option(options, "grpc.max_send_message_length")


def test_no_port_is_shared_with_another_daemon() -> None:
    for options in (operator_options(), probe_options(10, 1_000)):
        assert option(options, "grpc.so_reuseport") == 0
