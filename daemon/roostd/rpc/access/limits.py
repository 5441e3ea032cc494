"""Limits on callers of the daemon's gRPC services.

Two options have measured reasons: with gRPC's bandwidth probe (bdp_probe), 64 busy streams made the
server buffer 1.4 GB; with so_reuseport an old and a new daemon would share the calls to a port.
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

# A connection costs a file, and a process has few: 1,324 idle connections once left none for
# scontrol, which stopped placement. So idle connections are closed, and no more are accepted than
# there are files for.
_HANDSHAKE_MS = 10_000
_IDLE_CONNECTION_MS = 300_000  # agents call when a job starts; a new connection takes milliseconds
_CONNECTIONS_PER_NODE = 2  # the probe's stream, and the agent's calls
_SPARE_CONNECTIONS = 256  # nodes that reconnect, and health checks
OPERATOR_CONNECTION_LIMIT = 128

# A Hello of 16 GPUs with every link and 16 NICs has 10 KiB.
PROBE_MESSAGE_BYTES = 64 << 10
PROBE_OPTIONS: ChannelOptions = [
    *_COMMON,
    ("grpc.max_receive_message_length", PROBE_MESSAGE_BYTES),
    ("grpc.max_concurrent_streams", 16),
]

# Requests are short; the response for 10,000 nodes of 8 GPUs has about 12 MB.
OPERATOR_OPTIONS: ChannelOptions = [
    *_COMMON,
    ("grpc.max_receive_message_length", 16 << 10),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.max_concurrent_streams", 16),
]
# Calls that are answered at the same time, see in_flight; the answers wait for each other anyway.
MOST_CALLS = 64
MOST_CALLS_PER_USER = 16
SPARE_CALLS_OF_ROOT = 16

# For each calling host. A machine that runs the probes of many nodes, as tests do, starts them all
# at once.
MOST_SILENT_STREAMS = 64  # streams without a Hello; of the others there is one for each Slurm node
HELLO_RATE_PER_S, HELLO_BURST_COUNT = 5.0, 200.0
LOG_RATE_PER_S, LOG_BURST_COUNT = 0.2, 20.0
MOST_PEERS = 4_096  # hosts that are remembered, about 1 KB each

# Connections to a UNIX socket that knows its callers; each costs two files. One user must not use
# up all of them, and root must reach roostd all the same.
MOST_CONNECTIONS = 64
MOST_CONNECTIONS_PER_USER = 8
SPARE_CONNECTIONS_OF_ROOT = 8
MOST_GROUPS = 256  # of a caller; getsockopt in Python returns 1,024 bytes at most

FIRST_MESSAGE_S = 10.0  # a stream without a Hello is closed after this time
SILENT_STREAM_S = 60.0  # a stream that sent nothing for this time is closed
CHECKED_EVERY = 10  # samples, of which the values of one are checked even if it is not read
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
    """A token bucket.

    Args:
        rate_per_s: admitted in the long run.
        burst_count: admitted at once.
    """

    def __init__(self, rate_per_s: float, burst_count: float) -> None:
        self._rate_per_s, self._burst_count = rate_per_s, burst_count
        self._tokens, self._at_s = burst_count, 0.0

    def admit(self, now_s: float) -> bool:
        """Return whether one more is admitted now, and count it if it is."""
        elapsed_s = max(now_s - self._at_s, 0.0)
        self._tokens = min(self._tokens + elapsed_s * self._rate_per_s, self._burst_count)
        self._at_s = now_s
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
