"""The answers of the page's server: a WSGI application that only reads.

Any program of this machine may ask, and so may any web site in a browser that runs here: so the
Host header must name this machine, as a name of another site that resolves to it does not, no
answer may be read or framed by another site, and the page may load nothing from elsewhere.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from urllib.parse import unquote

from roost_engine.domain.errors import UnknownJob

STATIC = Path(__file__).parent / "static"
FILES: Mapping[str, tuple[str, str]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/drawing.js": ("drawing.js", "text/javascript; charset=utf-8"),
    "/report.js": ("report.js", "text/javascript; charset=utf-8"),
    "/roost.svg": ("roost.svg", "image/svg+xml"),
}
_JSON = "application/json"
HEADERS = (
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
)
_THIS_MACHINE = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:]+\]|[a-z0-9.-]+)(:\d{1,5})?", re.ASCII)
_JOB = re.compile(r"/api/jobs/(\d{1,10}(?:_\d{1,10})?)", re.ASCII)
_LEAST_GZIP_BYTES = 1_000

Environ: TypeAlias = Mapping[str, Any]
StartResponse: TypeAlias = Callable[[str, list[tuple[str, str]]], object]


class Answers(Protocol):
    """What the page shows; every method is called from threads."""

    def state_json(self) -> str:
        """Return the page's document; raises TimeoutError where the daemon is too busy."""

    def job_json(self, job_id: str) -> str:
        """Return why a job is where it is; raises UnknownJob, TimeoutError."""

    def report_json(self) -> str:
        """Return the report of the last week as far as it is known; never waits."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: str
    kind: str
    body: bytes
    more: tuple[tuple[str, str], ...] = ()


class PageApp:
    """Answers GET and HEAD.

    Args:
        answers: what the page shows.
    """

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._files = {
            path: (kind, (STATIC / name).read_bytes()) for path, (name, kind) in FILES.items()
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """See PEP 3333."""
        answer = self._answer(environ)
        body, headers = answer.body, [("Content-Type", answer.kind), *answer.more, *HEADERS]
        takes_gzip = "gzip" in environ.get("HTTP_ACCEPT_ENCODING", "")
        if takes_gzip and len(body) >= _LEAST_GZIP_BYTES:
            body = gzip.compress(body, compresslevel=1, mtime=0)
            headers.append(("Content-Encoding", "gzip"))
        headers += [("Content-Length", str(len(body))), ("Vary", "Accept-Encoding")]
        start_response(answer.status, headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: Environ) -> _Answer:
        if not is_this_machine(environ.get("HTTP_HOST", "")):
            why = "the page is read as http://127.0.0.1 or localhost; see docs/operations.md"
            return _refusal("421 Misdirected Request", why)
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _refusal("405 Method Not Allowed", "the page only reads", ("Allow", "GET, HEAD"))
        path = unquote(environ.get("PATH_INFO", ""))
        if path in self._files:
            kind, body = self._files[path]
            return _Answer("200 OK", kind, body)
        try:
            if path == "/api/state":
                return _Answer("200 OK", _JSON, self._answers.state_json().encode())
            if path == "/api/report":
                return _Answer("200 OK", _JSON, self._answers.report_json().encode())
            if (job := _JOB.fullmatch(path)) is not None:
                return _Answer("200 OK", _JSON, self._answers.job_json(job[1]).encode())
        except UnknownJob as error:
            return _refusal("404 Not Found", str(error))
        except TimeoutError:
            why = "roostd is too busy to answer; try again"
            return _refusal("503 Service Unavailable", why, ("Retry-After", "5"))
        return _refusal("404 Not Found", "there is no such page")


def is_this_machine(host: str) -> bool:
    """Return whether a Host header names this machine; with any port, as a tunnel has its own."""
    match = _HOST.fullmatch(host.lower())
    return match is not None and match[1] in _THIS_MACHINE


def _refusal(status: str, why: str, *more: tuple[str, str]) -> _Answer:
    return _Answer(status, _JSON, json.dumps({"error": why}).encode(), more)
