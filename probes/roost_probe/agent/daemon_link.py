"""Channels to roostd."""

from dataclasses import dataclass
from pathlib import Path

import grpc

from roost_probe.errors import SettingsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files of a mutual TLS connection. The certificate's SAN must be the node's name."""

    ca: Path
    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonAddress:
    """Where roostd listens for probes. tls None: the connection is not encrypted."""

    target: str  # HOST:PORT
    tls: Tls | None = None

    def open_channel(self) -> grpc.aio.Channel:
        """Open a channel; it connects when it is first used.

        Raises:
            SettingsError: a TLS file cannot be read.
        """
        if self.tls is None:
            return grpc.aio.insecure_channel(self.target, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=_read(self.tls.ca),
            private_key=_read(self.tls.key),
            certificate_chain=_read(self.tls.certificate),
        )
        return grpc.aio.secure_channel(self.target, credentials, options=_OPTIONS)


_OPTIONS: tuple[tuple[str, int], ...] = (
    ("grpc.http2.bdp_probe", 0),  # the probing grows buffers to hundreds of MB in the daemon
    # This channel shares no connection state: the probe has its own back-off, and shared
    # state would add gRPC's back-off to it.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # The interval must stay above the 300 s that servers tolerate by default. The time-out also
    # sets TCP_USER_TIMEOUT, by which a dead daemon is noticed while samples are sent.
    ("grpc.keepalive_time_ms", 330_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.max_receive_message_length", 1 << 16),
    ("grpc.enable_retries", 0),
)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
