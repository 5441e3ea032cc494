"""Limits for each calling host: a flood of calls from one must not crowd out the others."""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import unquote

from roostd.rpc.access.limits import (
    HELLO_BURST_COUNT,
    HELLO_RATE_PER_S,
    LOG_BURST_COUNT,
    LOG_RATE_PER_S,
    MOST_PEERS,
    MOST_SILENT_STREAMS,
    RateLimit,
)

LOCAL_HOST = "localhost"


def host_of(peer: str) -> str:
    """Return the host in gRPC's name of a caller: `fe80::1` for `ipv6:%5Bfe80::1%5D:4711`.

    Every loopback address is LOCAL_HOST: all of them are the same machine.
    """
    host = unquote(peer).partition(":")[2].rpartition(":")[0].strip("[]")
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return LOCAL_HOST if address.is_loopback else str(address)


@dataclass(slots=True)
class _Peer:
    hellos: RateLimit
    lines: RateLimit
    left_out_count: int = 0


class Peers:
    """The rate limits of each host. Remembers the MOST_PEERS hosts that called last.

    Args:
        now_s: a clock that never runs backwards.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._peers: OrderedDict[str, _Peer] = OrderedDict()
        self._silent = Counter[str]()  # streams without a Hello, by host

    def admit_hello(self, host: str) -> bool:
        """Return whether one more Hello of this host may be read now."""
        return self._peer(host).hellos.admit(self._now_s())

    def admit_line(self, host: str) -> int | None:
        """Return how many log lines of this host were left out before this one.

        None: this one must be left out too.
        """
        peer = self._peer(host)
        if not peer.lines.admit(self._now_s()):
            peer.left_out_count += 1
            return None
        left_out_count, peer.left_out_count = peer.left_out_count, 0
        return left_out_count

    def admit_silent_stream(self, host: str) -> bool:
        """Count a stream that has not sent Hello; return False where the host has too many."""
        if self._silent[host] >= MOST_SILENT_STREAMS:
            return False
        self._silent[host] += 1
        return True

    def end_silence(self, host: str) -> None:
        """Undo the count of `admit_silent_stream`: the stream sent Hello, or ended."""
        self._silent[host] -= 1
        if self._silent[host] <= 0:
            del self._silent[host]

    def _peer(self, host: str) -> _Peer:
        if host not in self._peers:
            self._peers[host] = _Peer(
                RateLimit(HELLO_RATE_PER_S, HELLO_BURST_COUNT),
                RateLimit(LOG_RATE_PER_S, LOG_BURST_COUNT),
            )
            if len(self._peers) > MOST_PEERS:
                self._peers.popitem(last=False)
        self._peers.move_to_end(host)
        return self._peers[host]
