"""The environment variables of gRPC, which it reads once, at its first use."""

import os
from collections.abc import MutableMapping

# With gRPC's own event engine each message of a probe wakes two threads before Python sees it;
# without it, one. 1,000 nodes at one sample a second: 0.17 of a core with it, 0.13 without
# (benchmarks/ingest.py, grpcio 1.85 on a busy machine). A release that does not know a name
# ignores it.
_EXPERIMENTS = (
    "-event_engine_listener",
    "-event_engine_client",
    "-event_engine_for_all_other_endpoints",
)


def prepare_grpc(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set what the operator has not set. Call this before gRPC is used."""
    environ.setdefault("GRPC_VERBOSITY", "NONE")
    environ.setdefault("GRPC_EXPERIMENTS", ",".join(_EXPERIMENTS))
