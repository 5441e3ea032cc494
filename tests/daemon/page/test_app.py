"""The page's server only reads, only for this machine, and lets nothing in from elsewhere."""

import gzip
import json
import re
from typing import Any

import pytest

from roost_engine.domain.errors import UnknownJob
from roostd.page.app import FILES, STATIC, PageApp, is_this_machine


class FakeAnswers:
    """A daemon with one job."""

    def __init__(self, is_busy: bool = False) -> None:
        self.is_busy = is_busy

    def state_json(self) -> str:
        if self.is_busy:
            raise TimeoutError
        return json.dumps({"schema": "roost.page/1", "filler": "x" * 5_000})

    def job_json(self, job_id: str) -> str:
        if job_id != "7_3":
            raise UnknownJob(job_id)
        return json.dumps({"job": {"job_id": job_id}})

    def report_json(self) -> str:
        return json.dumps({"schema": "roost.page-report/1"})


class Asked:
    """One request and its answer."""

    def __init__(
        self, path: str, app: PageApp | None = None, method: str = "GET", **headers: str
    ) -> None:
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_HOST": "127.0.0.1:7473"}
        self.status, self.headers = "", dict[str, str]()
        app = app or PageApp(FakeAnswers())
        self.body = b"".join(app(environ | headers, self._start))

    def _start(self, status: str, headers: list[tuple[str, str]]) -> None:
        assert len({name for name, _ in headers}) == len(headers)
        self.status, self.headers = status[:3], dict(headers)

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@pytest.mark.parametrize("path", FILES)
def test_the_files_are_served_as_what_they_are(path: str) -> None:
    name, kind = FILES[path]
    asked = Asked(path)
    assert (asked.status, asked.headers["Content-Type"]) == ("200", kind)
    assert asked.body == (STATIC / name).read_bytes()
    assert asked.headers["Content-Length"] == str(len(asked.body))


def test_every_file_of_the_folder_is_served() -> None:
    assert {path.name for path in STATIC.iterdir()} == {name for name, _ in FILES.values()}


@pytest.mark.parametrize("path", ["/", "/api/state", "/api/report", "/api/jobs/7_3", "/nothing"])
def test_no_other_site_can_read_frame_or_feed_any_answer(path: str) -> None:
    headers = Asked(path).headers
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers


def test_the_files_load_nothing_from_elsewhere_and_make_no_markup_of_text() -> None:
    for name, _ in FILES.values():
        text = (STATIC / name).read_text()
        addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[\w/.]*", text))
        assert addresses <= {"http://www.w3.org/2000/svg", "//www.w3.org/2000/svg"}, name
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text)
        assert not re.search(r"<script>|<style|\son\w+=\"|style=\"", text), name


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:7473", "localhost:8080", "LOCALHOST", "[::1]:7473"]
)
def test_this_machine_is_known_by_its_names_with_any_port(host: str) -> None:
    assert is_this_machine(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "evil.example:7473", "localhost.evil.example", "127.0.0.1.evil.example",
     "127.0.0.1:7473@evil.example", "localhost:port", "[::2]", "10.0.0.1:7473"],
)  # fmt: skip
def test_a_name_of_another_site_that_points_here_is_refused(host: str) -> None:
    asked = Asked("/api/state", HTTP_HOST=host)
    assert asked.status == "421"
    assert "127.0.0.1 or localhost" in asked.document["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(method: str) -> None:
    asked = Asked("/api/state", method=method)
    assert (asked.status, asked.headers["Allow"]) == ("405", "GET, HEAD")


def test_head_has_the_headers_of_get_and_no_body() -> None:
    asked, full = Asked("/", method="HEAD"), Asked("/")
    assert (asked.body, asked.headers) == (b"", full.headers)


@pytest.mark.parametrize(
    "path",
    ["/../app.py", "/static/index.html", "/api", "/api/jobs/", "/api/jobs/1/2", "/api/jobs/x",
     "/api/jobs/1;2", "/%2e%2e/app.py", "/api/jobs/12345678901"],
)  # fmt: skip
def test_any_other_path_is_not_found(path: str) -> None:
    assert Asked(path).status == "404"


def test_a_job_is_found_by_its_id_or_told_unknown() -> None:
    assert Asked("/api/jobs/7_3").document == {"job": {"job_id": "7_3"}}
    asked = Asked("/api/jobs/8")
    assert (asked.status, asked.document) == ("404", {"error": "no job '8'"})


def test_a_daemon_that_is_too_busy_says_when_to_ask_again() -> None:
    asked = Asked("/api/state", PageApp(FakeAnswers(is_busy=True)))
    assert (asked.status, asked.headers["Retry-After"]) == ("503", "5")


def test_long_answers_are_compressed_where_the_browser_can_read_that() -> None:
    asked = Asked("/api/state", HTTP_ACCEPT_ENCODING="gzip, br")
    assert asked.headers["Content-Encoding"] == "gzip"
    assert asked.headers["Content-Length"] == str(len(asked.body))
    assert gzip.decompress(asked.body) == Asked("/api/state").body
    assert "Content-Encoding" not in Asked("/api/jobs/7_3", HTTP_ACCEPT_ENCODING="gzip").headers
