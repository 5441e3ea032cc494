"""A small certificate authority for mutual TLS between probes and roostd, by openssl's command.

One folder holds the authority, a certificate and a key for roostd and for each node, the list of
all that were made, and the list of revoked ones. docs/design/0017-certificates.md says why it is
openssl's command.
"""

import hashlib
import ipaddress
import os
import re
import ssl
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CA, DAEMON = "ca", "roostd"
ISSUED, REVOKED = "issued.txt", "revoked.txt"
CA_DAYS, DAYS, RENEW_BEFORE_DAYS = 3_650, 825, 30
_OPENSSL_S = 60.0
_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_CA_EXTENSIONS = (
    "basicConstraints=critical,CA:TRUE,pathlen:0",
    "keyUsage=critical,keyCertSign,cRLSign",
)
_LEAF_EXTENSIONS = (
    "basicConstraints=critical,CA:FALSE",
    "keyUsage=critical,digitalSignature",
    "extendedKeyUsage=serverAuth,clientAuth",
)
_PEM, _KEY = "{pem}", "{key}"  # in a command: the files that it writes
_LONGEST_NAME, _LONGEST_HOST = 64, 253  # of a certificate's subject (X.520), and of DNS
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,62}[A-Za-z0-9])?"  # Linux names a host with 64 letters
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_LIKE_ADDRESS = re.compile(r".*\.[0-9]+")  # no domain is a number

Run = Callable[[Sequence[str]], str]


class CertificateError(Exception):
    """A certificate cannot be made or read; the text names the file and the cure."""


@dataclass(frozen=True, slots=True)
class Held:
    """A certificate in the folder.

    Attributes:
        name: of the node, or DAEMON, or CA.
        days_left: until it expires; below 0: it has expired.
    """

    name: str
    days_left: float


def openssl(arguments: Sequence[str]) -> str:
    """Run openssl and return what it prints.

    Raises:
        CertificateError: it is not installed, fails or hangs.
    """
    argv = ["openssl", *arguments]
    env = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=_OPENSSL_S, check=False
        )
    except FileNotFoundError as error:
        raise CertificateError("openssl is not installed; install the package openssl") from error
    except subprocess.TimeoutExpired as error:
        raise CertificateError(f"{' '.join(argv)}: no end after {_OPENSSL_S:g} s") from error
    if done.returncode:
        raise CertificateError(f"{' '.join(argv)}: {done.stderr.strip()[-400:]}")
    return done.stdout


class Authority:
    """The authority of one folder.

    Args:
        folder: is made where it is missing; readable for its user only.
        run: openssl.
        now_s: the wall clock, seconds since 1970.
    """

    def __init__(
        self, folder: Path, run: Run = openssl, now_s: Callable[[], float] = time.time
    ) -> None:
        self._folder, self._run, self._now_s = folder, run, now_s

    def make(
        self,
        wanted: Iterable[tuple[str, Sequence[str]]],
        days: int = DAYS,
        renew_before_days: float = RENEW_BEFORE_DAYS,
    ) -> Iterator[str]:
        """Make the authority, and every certificate that is missing or expires soon.

        Args:
            wanted: each name with the host names and addresses that the certificate is to name.
            days: for which a certificate is valid.
            renew_before_days: one that expires earlier is made again.

        Yields:
            The name of each certificate that was made, once it is on disk.

        Raises:
            CertificateError: a name is wrong, or openssl fails.
        """
        checked = [(_name(name), [_checked(one) for one in names]) for name, names in wanted]
        self._make_authority()
        for name, names in checked:
            if not self._is_good(name, names, renew_before_days):
                self._make_one(name, names, days)
                yield name

    def revoke(self, name: str) -> list[str]:
        """Add a node's certificates to the list of revoked ones; delete its present one and key.

        Earlier ones are valid until they expire, and a node may still have one: all are revoked.

        Returns:
            The SHA-256 fingerprints that were added, the earliest certificate first.

        Raises:
            CertificateError: there is none of that name, or it is not a node's.
        """
        if name in (CA, DAEMON):
            raise CertificateError(
                f"{name}: not a node's certificate, and probes read no list; if its key is stolen,"
                " make a new authority in an empty folder"
            )
        certificate = self._path(_name(name))
        revoked = set(self._listed(REVOKED, name))
        digests = [one for one in self._listed(ISSUED, name) if one not in revoked]
        if certificate.exists() or not digests:
            digests.append(fingerprint(certificate))
        for digest in (added := list(dict.fromkeys(digests))):
            self._list(REVOKED, digest, name)
        certificate.unlink(missing_ok=True)
        certificate.with_suffix(".key").unlink(missing_ok=True)
        return added

    def held(self) -> list[Held]:
        """Return every certificate of the folder, that which expires first in front.

        Raises:
            CertificateError: there is none, or one cannot be read.
        """
        if not self._path(CA).exists():
            raise CertificateError(f"{self._folder}: no authority there; name the folder of one")
        found = [Held(path.stem, self._days_left(path)) for path in self._folder.glob("*.pem")]
        return sorted(found, key=lambda one: (one.days_left, one.name))

    def _make_authority(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CertificateError(f"{self._folder}: no folder: {error.strerror}") from error
        certificate, key = self._path(CA), self._path(CA).with_suffix(".key")
        if certificate.exists():
            if not key.exists():
                raise CertificateError(f"{key}: missing; bring it back, or use an empty folder")
            return
        argv = ["req", "-x509", *_EC, "-days", str(CA_DAYS), "-subj", "/CN=Roost"]
        for extension in _CA_EXTENSIONS:
            argv += ["-addext", extension]
        self._write(CA, [*argv, "-keyout", _KEY, "-out", _PEM])
        (self._folder / REVOKED).touch()  # roostd reads a list that is there, and its changes

    def _make_one(self, name: str, names: Sequence[str], days: int) -> None:
        authority = self._path(CA)
        request, extensions = self._folder / f".{name}.csr", self._folder / f".{name}.ext"
        lines = [f"subjectAltName={','.join(map(_alternative, names))}", *_LEAF_EXTENSIONS]
        extensions.write_text("\n".join(lines) + "\n", encoding="ascii")
        try:
            argv = ["req", "-new", *_EC, "-subj", f"/CN={name}", "-keyout", _KEY]
            sign = ["x509", "-req", "-in", str(request), "-CA", str(authority)]
            sign += ["-CAkey", str(authority.with_suffix(".key")), "-days", str(days)]
            sign += ["-set_serial", f"0x{os.urandom(16).hex()}", "-extfile", str(extensions)]
            self._write(name, [*argv, "-out", str(request)], [*sign, "-out", _PEM])
        finally:
            request.unlink(missing_ok=True)
            extensions.unlink(missing_ok=True)

    def _write(self, name: str, *commands: Sequence[str]) -> None:
        """Run commands that write a key and a certificate; both appear only when whole."""
        pem, key = self._folder / f".{name}.new", self._folder / f".{name}.new-key"
        mask = os.umask(0o077)
        try:
            for argv in commands:
                self._run([{_PEM: str(pem), _KEY: str(key)}.get(word, word) for word in argv])
            key.chmod(0o600)
            pem.chmod(0o644)
            self._note_issued(name, pem)
            # roostd reads both, and keeps the old ones while the two do not match.
            key.replace(self._path(name).with_suffix(".key"))
            pem.replace(self._path(name))
        finally:
            os.umask(mask)
            pem.unlink(missing_ok=True)
            key.unlink(missing_ok=True)

    def _note_issued(self, name: str, pem: Path) -> None:
        """List a certificate before it appears, and the one that it replaces if need be."""
        listed = self._listed(ISSUED, name)
        for path in (self._path(name), pem):
            if path.exists() and (digest := fingerprint(path)) not in listed:
                self._list(ISSUED, digest, name)

    def _listed(self, file: str, name: str) -> list[str]:
        """Return the fingerprints of a name in ISSUED or REVOKED, the earliest first."""
        try:
            lines = (self._folder / file).read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        words = (line.split() for line in lines)
        return [found[0] for found in words if found[1:2] == [name]]

    def _list(self, file: str, digest: str, name: str) -> None:
        day = time.strftime("%Y-%m-%d", time.gmtime(self._now_s()))
        with (self._folder / file).open("a", encoding="ascii") as opened:
            opened.write(f"{digest} {name} {day}\n")
            opened.flush()
            os.fsync(opened.fileno())

    def _is_good(self, name: str, names: Sequence[str], renew_before_days: float) -> bool:
        path = self._path(name)
        if not path.exists() or not path.with_suffix(".key").exists():
            return False
        has_names = self._names(path) == {_plain(one) for one in names}
        return has_names and self._days_left(path) >= renew_before_days

    def _names(self, path: Path) -> set[str]:
        text = self._run(["x509", "-in", str(path), "-noout", "-ext", "subjectAltName"])
        return {_plain(one) for one in re.findall(r"(?:DNS|IP Address):([^,\s]+)", text)}

    def _days_left(self, path: Path) -> float:
        text = self._run(["x509", "-in", str(path), "-noout", "-enddate"])
        end_s = ssl.cert_time_to_seconds(text.strip().partition("=")[2])
        return (end_s - self._now_s()) / 86_400.0

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.pem"


def fingerprint(certificate: Path) -> str:
    """Return the SHA-256 of a certificate, as in the list of revoked ones.

    Raises:
        CertificateError: the file cannot be read, or has no certificate.
    """
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text("ascii"))).hexdigest()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no certificate in it"
        raise CertificateError(f"{certificate}: {why}") from error


def _name(name: str) -> str:
    if len(name) > _LONGEST_NAME:
        raise _wrong(name)
    return _checked(name)


def _checked(name: str) -> str:
    is_host = _HOST.fullmatch(name) and not _LIKE_ADDRESS.fullmatch(name)
    if not (_is_address(name) or (is_host and len(name) <= _LONGEST_HOST)):
        raise _wrong(name)
    return name


def _wrong(name: str) -> CertificateError:
    return CertificateError(f"{name!r} is no host name or address")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return "%" not in name  # certificates have no field for a zone


def _plain(name: str) -> str:
    """Return a name or address in one of the several ways in which it can be written."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower()


def _alternative(name: str) -> str:
    return f"IP:{name}" if _is_address(name) else f"DNS:{name}"
