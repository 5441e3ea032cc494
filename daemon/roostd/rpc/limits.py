"""How much a caller may ask of the daemon.

Measured reasons: with the bandwidth probe on, 64 busy streams made the server buffer 1.4 GB; more
than one listener on a port would share calls between an old and a new daemon.
"""

from typing import TypeAlias

from roostd.ops.files import RESERVED_FILE_COUNT

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

# A connection costs a file, and a process has few: 1,324 idle ones once left none for scontrol,
# which stopped placement. So a connection that says nothing is closed, and no more are taken than
# there are files for.
_HANDSHAKE_MS = 10_000
_IDLE_CONNECTION_MS = 300_000  # agents ask when a job starts; a new connection takes milliseconds
_CONNECTIONS_PER_NODE = 2  # the probe's stream, and the agent's questions
_SPARE_CONNECTIONS = 256  # the same nodes coming back, and health checks
OPERATOR_CONNECTION_LIMIT = 128

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

# By calling host. A machine that runs the probes of many nodes, as for tests, starts them together.
MOST_SILENT_STREAMS = 64  # that have not said Hello; the others are one a node of Slurm's
HELLO_RATE_PER_S, HELLO_BURST_COUNT = 5.0, 200.0
LOG_RATE_PER_S, LOG_BURST_COUNT = 0.2, 20.0
MOST_PEERS = 4_096  # hosts that are remembered, about 1 KB each

FIRST_MESSAGE_S = 10.0  # after which a stream that never said Hello is closed
QUIET_STREAM_S = 60.0  # after which a stream that says nothing is closed
BAD_MESSAGE_LIMIT = 10  # in a row, after which a stream is closed


def probe_options(max_node_count: int, file_limit: int) -> ChannelOptions:
    """Return the options of the server for probes.

    Args:
        max_node_count: probes that may be connected.
        file_limit: files that this process may have open.
    """
    wanted = max_node_count * _CONNECTIONS_PER_NODE + _SPARE_CONNECTIONS
    return [*PROBE_OPTIONS, *_connections(min(wanted, file_limit - RESERVED_FILE_COUNT))]


def operator_options() -> ChannelOptions:
    """Return the options of the servers for people and administrators."""
    return [*OPERATOR_OPTIONS, *_connections(OPERATOR_CONNECTION_LIMIT)]


def _connections(most: int) -> ChannelOptions:
    return [
        ("grpc.max_allowed_incoming_connections", max(most, 1)),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
        ("grpc.max_connection_idle_ms", _IDLE_CONNECTION_MS),
    ]


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
