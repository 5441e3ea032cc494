"""How much a caller may ask of the daemon.

Measured reasons: with the bandwidth probe on, 64 busy streams made the server buffer 1.4 GB; more
than one listener on a port would share calls between an old and a new daemon.
"""

from typing import TypeAlias

ChannelOptions: TypeAlias = list[tuple[str, int]]

_MAX_METADATA_BYTES = 8 << 10
_COMMON: ChannelOptions = [
    ("grpc.http2.bdp_probe", 0),
    ("grpc.so_reuseport", 0),
    ("grpc.max_metadata_size", _MAX_METADATA_BYTES),
    ("grpc.absolute_max_metadata_size", _MAX_METADATA_BYTES),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 60_000),
    ("grpc.http2.max_ping_strikes", 2),
]

# A Hello of 16 GPUs with every link and 16 NICs has 10 KiB.
PROBE_MESSAGE_BYTES = 64 << 10
PROBE_OPTIONS: ChannelOptions = [
    *_COMMON,
    ("grpc.max_receive_message_length", PROBE_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", 16),
]

# Questions are short; the answer for 10,000 nodes of 8 GPUs has about 12 MB.
OPERATOR_OPTIONS: ChannelOptions = [
    *_COMMON,
    ("grpc.max_receive_message_length", 16 << 10),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.max_concurrent_streams", 16),
]
OPERATOR_CALL_LIMIT = 64

FIRST_MESSAGE_S = 10.0  # after which a stream that never said Hello is closed
QUIET_STREAM_S = 60.0  # after which a stream that says nothing is closed
BAD_MESSAGE_LIMIT = 10  # in a row, after which a stream is closed


class RateLimit:
    """A token bucket: a steady rate, and bursts of a few seconds' worth.

    Args:
        rate_per_s: what may come in the long run.
        burst_count: what may come at once.
    """

    def __init__(self, rate_per_s: float, burst_count: float) -> None:
        self._rate_per_s, self._burst_count = rate_per_s, burst_count
        self._tokens, self._at_s = burst_count, 0.0

    def admit(self, now_s: float) -> bool:
        """Whether one more may come now."""
        elapsed_s = max(now_s - self._at_s, 0.0)
        self._tokens = min(self._tokens + elapsed_s * self._rate_per_s, self._burst_count)
        self._at_s = now_s
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
