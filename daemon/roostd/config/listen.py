"""The section about calls: where the daemon takes them, and from which machines."""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from roostd.config.values import (
    AbsolutePath,
    HostPort,
    LoopbackPort,
    Section,
    SocketPath,
    is_loopback,
)

PROBE_PORT = 7471


class ProbesTls(Section):
    """Mutual TLS for probes."""

    certificate: AbsolutePath = Field(description="this daemon's certificate chain, PEM")
    key: AbsolutePath = Field(description="its private key, PEM")
    client_ca: AbsolutePath = Field(
        description="the authority that signs the probes' certificates; the SAN of each must name"
        " its node"
    )
    revoked: AbsolutePath | None = Field(
        default=None,
        description="list of revoked certificates, as roost-slurm certs --revoke writes it; null:"
        " none",
    )


class Listen(Section):
    """Where the daemon takes calls."""

    probes_tls: ProbesTls | None = Field(default=None, description="mutual TLS; null: plain TCP")
    insecure: bool = Field(
        default=False,
        description="true: probes may connect from other machines without mutual TLS",
    )
    # After the two settings that its check reads.
    probes: HostPort | None = Field(
        default=None,
        description="HOST:PORT for probes and node agents; null: port 7471, of every address with"
        " probes_tls or insecure, else of 127.0.0.1",
    )
    operator_socket: SocketPath | None = Field(
        default=None, description="UNIX socket for people; null: operator.sock in paths.runtime_dir"
    )
    operator_group: str | None = Field(
        default=None, description="group that may use that socket; null: the daemon's own"
    )
    admin_socket: SocketPath | None = Field(
        default=None,
        description="UNIX socket for changes; null: admin.sock in paths.runtime_dir",
    )
    admin_group: str | None = Field(
        default=None, description="group that may use that socket; null: the daemon's own"
    )
    operator_tcp: LoopbackPort | None = Field(
        default=None, description="the same service on a loopback port, open to every local user"
    )
    metrics: HostPort | None = Field(default=None, description="Prometheus over HTTP; null: none")
    max_node_count: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=12_000, description="probe streams beyond this many are turned away"
    )

    @field_validator("probes")
    @classmethod
    def _check_probes(cls, probes: str | None, info: ValidationInfo) -> str | None:
        # A key that is missing from the data was wrong itself, and is reported already.
        is_guarded = info.data.get("probes_tls", True) or info.data.get("insecure", True)
        if probes is None or is_guarded or is_loopback(probes):
            return probes
        raise ValueError(
            f"{probes} is open to other machines, where any user could speak for a node; set"
            " listen.probes_tls (docs/operations.md), or listen.insecure: true to allow it, or"
            f" 127.0.0.1:{probes.rpartition(':')[2]}"
        )

    @property
    def probe_address(self) -> str:
        """HOST:PORT that probes connect to."""
        if self.probes is not None:
            return self.probes
        host = "0.0.0.0" if self.probes_tls is not None or self.insecure else "127.0.0.1"
        return f"{host}:{PROBE_PORT}"
