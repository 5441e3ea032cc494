"""Lines of the audit log in a chain: each names the hash of the line before it, and its own.

A line that was changed, removed, added or moved breaks the chain there. The hashes have no key, so
a user that may write the log can write a whole new chain: roostd also logs each line's hash
(`pin_timer ... chain=`), and a copy of that log on another host shows it.

Format, version 1: a JSON object on one line, whose last keys are `"after"`, the hash of the line
before, and `"chain"`, the SHA-256 in hex of the line without that key.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

START = "0" * 64  # in place of the hash of the line before, at the first line ever
_CHAINED = re.compile(
    r'(?P<body>\{.*"after": "(?P<after>[0-9a-f]{64})"), "chain": "(?P<hash>[0-9a-f]{64})"\}'
)


def chained(after: str, entries: Mapping[str, object]) -> tuple[str, str]:
    """Return the next line, without a line feed, and its hash.

    Args:
        after: the hash of the line before; START for the first one.
        entries: what the line says; without the keys `after` and `chain`.
    """
    body = json.dumps({**entries, "after": after})[:-1]
    digest = _hash(body)
    return f'{body}, "chain": "{digest}"}}', digest


def hash_of(line: str) -> str | None:
    """Return the hash that a line carries; None: it carries none."""
    match = _CHAINED.fullmatch(line)
    return match["hash"] if match else None


def hash_of_unchained(text: bytes) -> str:
    """Return what counts as the hash of lines of an earlier version, which carry none.

    Args:
        text: the whole file so far, so that the chain covers every line of it.
    """
    return hashlib.sha256(text).hexdigest()


@dataclass(frozen=True, slots=True)
class Break:
    """A place at which the chain does not hold.

    Attributes:
        line_number: from 1.
        problem: what is wrong there.
    """

    line_number: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What a check of a log has found.

    Attributes:
        line_count: lines in all.
        unchained_count: lines of an earlier version at the beginning; the chain covers them as a
            whole.
        after: the hash that the first chained line names; "" where there is none.
        last_hash: of the last line, or what was given for the file before an empty one; "" where
            it is not known.
        breaks: where the chain does not hold, in order.
    """

    line_count: int
    unchained_count: int
    after: str
    last_hash: str
    breaks: tuple[Break, ...]


def check(text: bytes, after: str | None = None) -> Findings:
    """Check the chain of a whole file.

    Args:
        text: the file.
        after: the last hash of the file before it, where the log was rotated; None: not known.
    """
    lines, first = text.split(b"\n"), ""
    breaks = [Break(len(lines), "is cut: it has no line feed")] if lines[-1] else []
    if not lines[-1]:
        lines.pop()
    unchained_count = _leading_unchained(lines)
    if unchained_count:
        covered = b"".join(line + b"\n" for line in lines[:unchained_count])
        after = hash_of_unchained(covered)
    for number, raw in enumerate(lines[unchained_count:], unchained_count + 1):
        match = _CHAINED.fullmatch(raw.decode("utf-8", "replace"))
        if match is None:
            breaks.append(Break(number, "is no line of this log, or its hash is gone"))
            after = None
            continue
        if _hash(match["body"]) != match["hash"]:
            breaks.append(Break(number, "was changed"))
        elif after is not None and match["after"] != after:
            breaks.append(Break(number, "does not follow the line before it"))
        first, after = first or match["after"], match["hash"]
    return Findings(
        line_count=len(lines),
        unchained_count=unchained_count,
        after=first,
        last_hash=after or "",
        breaks=tuple(sorted(breaks, key=lambda found: found.line_number)),
    )


def _leading_unchained(lines: Iterable[bytes]) -> int:
    """Return how many lines of an earlier version a file begins with."""
    count = 0
    for line in lines:
        try:
            entries = json.loads(line)
        except (ValueError, RecursionError):  # the latter for 1,000 brackets
            return count
        if not isinstance(entries, dict) or "chain" in entries:
            return count
        count += 1
    return count


def _hash(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
