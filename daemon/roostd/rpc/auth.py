"""Who may speak for a node, and who may reach the operator's socket."""

import grp
import os
import shutil
import stat
from pathlib import Path

import grpc

from roost_engine.domain.errors import ConfigError
from roostd.config.config import ProbesTls
from roostd.rpc.errors import Context
from roostd.rpc.peers import host_of
from roostd.telemetry.board import NodeReport


def node_names(context: Context) -> frozenset[str] | None:
    """The names in the caller's certificate; None where the port has no TLS: anybody may speak."""
    auth = context.auth_context()
    if b"ssl" not in auth.get("transport_security_type", ()):
        return None
    names = auth.get("x509_subject_alternative_name", ())
    return frozenset(name.decode("utf-8", "replace") for name in names)


def may_speak_for(context: Context, node: str) -> bool:
    """Whether the caller is that node, by its certificate; a name with a domain counts too."""
    names = node_names(context)
    return names is None or any(name == node or name.startswith(f"{node}.") for name in names)


def why_not_answered(context: Context, node: str, report: NodeReport | None) -> str | None:
    """Return why the caller may not ask what is planned on a node; None: it may.

    A plan tells of other users' jobs, so it is for that node alone: by the certificate where there
    is mutual TLS. Without it all that can be known is that the caller sits where the node's probe
    does, and that this probe names the GPUs that the node has had.
    """
    if node_names(context) is not None:
        return None if may_speak_for(context, node) else f"the certificate does not name {node}"
    if report is None or not report.is_known or report.claim.host != host_of(context.peer()):
        return f"without mutual TLS plans for {node} are sent only to the host of its probe"
    return None


def probe_credentials(tls: ProbesTls) -> grpc.ServerCredentials:
    """Credentials that ask every probe for a certificate.

    Raises:
        ConfigError: a file cannot be read.
    """
    parts = []
    for key in ("key", "certificate", "client_ca"):
        path: Path = getattr(tls, key)
        try:
            parts.append(path.read_bytes())
        except OSError as error:
            raise ConfigError([f"listen.probes_tls.{key}: {path}: {error.strerror}"]) from error
    key_pem, certificate_pem, ca_pem = parts
    return grpc.ssl_server_credentials(
        [(key_pem, certificate_pem)], root_certificates=ca_pem, require_client_auth=True
    )


def clear_socket(path: Path, key: str) -> None:
    """Remove what a killed daemon left behind.

    Raises:
        ConfigError: something else than a socket is there.
    """
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ConfigError([f"{key}: {path}: not a socket; remove it"])
        path.unlink()
    except FileNotFoundError:
        return


def guard_socket(path: Path, group: str | None, key: str) -> None:
    """Let owner and group connect, nobody else. Connecting is the permission.

    grpcio tells a server nothing of who called over a UNIX socket, so the file's mode is the only
    guard there is; the folder should not be writable by others either.

    Raises:
        ConfigError: there is no such group, or the daemon is not in it.
    """
    if group is not None:
        try:
            grp.getgrnam(group)
            shutil.chown(path, group=group)
        except (KeyError, PermissionError) as error:
            problem = "no such group" if isinstance(error, KeyError) else "not a member of it"
            raise ConfigError([f"{key}: {group}: {problem}"]) from error
    os.chmod(path, 0o660)
