"""The list of revoked certificates: on each line a SHA-256 fingerprint, and any words."""

import re
from pathlib import Path

from roost_engine.domain.errors import ConfigError
from roostd.config.plain_file import NO_FILE, is_no_file

REVOKED = ("listen", "probes_tls", "revoked")  # the setting that names it
_KEY = ".".join(REVOKED)
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def read_revoked(path: Path) -> frozenset[str]:
    """Return the fingerprints of a list, 64 hexadecimal digits each; after `#` is a remark.

    Raises:
        ConfigError: the list cannot be read, or a line is wrong; the text names each.
    """
    try:
        if is_no_file(path):
            raise ConfigError([f"{_KEY}: {path}: {NO_FILE}"])
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise ConfigError([f"{_KEY}: {path}: {error.strerror}"]) from error
    problems, found = [], set()
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        digest = words[0].replace(":", "").lower()
        if not _FINGERPRINT.fullmatch(digest):
            problems.append(f"{_KEY}: {path}:{number}: want a SHA-256 fingerprint of 64 digits")
        found.add(digest)
    if problems:
        raise ConfigError(problems)
    return frozenset(found)
