"""Certificates of the probe port: read again when their files change, and the revoked ones.

gRPC asks for the certificates at each handshake. So new ones serve the next connection, and open
streams continue. gRPC for Python has no revocation lists: roostd compares fingerprints itself, at
every Hello and once in CHECK_S for open streams.
"""

import hashlib
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import grpc
import structlog

from roost_engine.domain.errors import ConfigError
from roostd.config.listen import ProbesTls
from roostd.config.plain_file import NO_FILE, is_no_file
from roostd.config.revoked_list import read_revoked
from roostd.rpc.errors import Context

_log = structlog.get_logger(__name__)

CHECK_S = 2.0  # how old what is known of the files may be; checking one costs microseconds
_Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]


class CertificateFiles:
    """The port's own certificate, its key, and the authority of the probes.

    Args:
        tls: the files.

    Raises:
        ConfigError: a file cannot be read, or has no certificate, or the key is of another one.
    """

    def __init__(self, tls: ProbesTls) -> None:
        self._paths = {key: getattr(tls, key) for key in ("key", "certificate", "client_ca")}
        self._lock = threading.Lock()  # gRPC asks from threads of its own
        self._stamp = _stamp(self._paths.values())
        self._first = self._read()

    def credentials(self) -> grpc.ServerCredentials:
        """Return credentials that require a certificate of every probe, by the newest files."""
        return grpc.dynamic_ssl_server_credentials(
            self._first,
            self._newest,  # type: ignore[arg-type]  # gRPC's page allows None, its stubs do not
            require_client_authentication=True,
        )

    def _newest(self) -> grpc.ServerCertificateConfiguration | None:
        """Return what changed files say; None: nothing has changed, or they are damaged."""
        with self._lock:
            stamp = _stamp(self._paths.values())
            if stamp == self._stamp:
                return None
            self._stamp = stamp
            try:
                read = self._read()
            except ConfigError as error:
                _log.error("certificates_not_reloaded", error=str(error))
                return None
            _log.info("certificates_reloaded")
            return read

    def _read(self) -> grpc.ServerCertificateConfiguration:
        parts = {}
        for key, path in self._paths.items():
            try:
                if is_no_file(path):
                    raise ConfigError([f"listen.probes_tls.{key}: {path}: {NO_FILE}"])
                parts[key] = path.read_bytes()
            except OSError as error:
                problem = f"listen.probes_tls.{key}: {path}: {error.strerror}"
                raise ConfigError([problem]) from error
        self._check()
        return grpc.ssl_server_certificate_configuration(
            [(parts["key"], parts["certificate"])], root_certificates=parts["client_ca"]
        )

    def _check(self) -> None:
        """Check that key and certificate match: gRPC would refuse every probe without a word."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self._paths["certificate"], self._paths["key"])
        except (OSError, ssl.SSLError) as error:
            problem = (
                f"listen.probes_tls.certificate: {self._paths['certificate']}: no certificate of "
                f"the key {self._paths['key']}: {error.strerror or error}"
            )
            raise ConfigError([problem]) from error
        try:
            context.load_verify_locations(self._paths["client_ca"])
        except (OSError, ssl.SSLError) as error:
            problem = f"listen.probes_tls.client_ca: {self._paths['client_ca']}: no certificate"
            raise ConfigError([problem]) from error


class Revocations:
    """The revoked certificates, see revoked_list.

    Args:
        path: of the list; None: no certificate is revoked. A list that cannot be read any more
            stays as it was, so that deleting it lets no thief in.
        now_s: a clock that never runs backwards.

    Raises:
        ConfigError: the list cannot be read at the start, or a line is wrong.

    Attributes:
        version: rises with every new list, so that open streams are compared with it once.
    """

    def __init__(self, path: Path | None, now_s: Callable[[], float] = time.monotonic) -> None:
        self._path, self._now_s, self.version = path, now_s, 0
        self._looked_s = now_s()
        self._stamp = _stamp([path]) if path else ()
        self._revoked = read_revoked(path) if path else frozenset[str]()

    def is_revoked(self, context: Context) -> bool:
        """Return whether the caller's certificate is on the list."""
        self.refresh()
        if not self._revoked:
            return False
        given = context.auth_context().get("x509_pem_cert", ())
        return any(_fingerprint(one) in self._revoked for one in given)

    def refresh(self) -> None:
        """Read the list again if its file has changed; looks at most once in CHECK_S."""
        if self._path is None or (now_s := self._now_s()) < self._looked_s + CHECK_S:
            return
        self._looked_s = now_s
        stamp = _stamp([self._path])
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._revoked = read_revoked(self._path)
        except ConfigError as error:
            _log.error("revocations_not_reloaded", error=str(error))
        else:
            self.version += 1
            _log.info("revocations_reloaded", count=len(self._revoked))


def _fingerprint(pem: bytes) -> str:
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem.decode("ascii"))).hexdigest()
    except ValueError:
        return ""


def _stamp(paths: Iterable[Path]) -> _Stamp:
    """Return what changes when a file is replaced or written."""
    return tuple(_stamp_of(path) for path in paths)


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
