"""The page in a real browser: it draws everything, reacts, and fits any window, dark and light."""

import html
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import missing
from tests.daemon.page.past import write_past
from tests.daemon.page.serving import Page, served_page

from roost_engine.domain.model import JobId
from roostd.config.config import Paths
from roostd.page.app import STATIC, Environ, StartResponse
from roostd.state import Owner, UnmanagedJob
from roostd.testing.busy_state import busy_state

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

VISITOR = Path(__file__).with_name("page_visitor.js")
WIDTHS = (500, 1100, 2000)
VIEWS = ("Jobs", "Load", "Memory", "Temperature", "Links")
App = Callable[[Environ, StartResponse], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Visit:
    """What the visitor of a page told, and what the browser complained of."""

    seen: dict[str, Any]
    console: list[str]


def with_visitor(app: App) -> App:
    """Serve one more script, and a page that has it; the headers stay those of the page."""
    index = (STATIC / "index.html").read_bytes()
    tag = b'<script src="/visitor.js" defer></script></head>'

    def outer(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        bodies = {
            "/visited": (index.replace(b"</head>", tag), "/"),
            "/visitor.js": (VISITOR.read_bytes(), "/page.js"),
        }
        path = environ["PATH_INFO"]
        if path not in bodies:
            return app(environ, start_response)
        body, like = bodies[path]

        def start(status: str, headers: list[tuple[str, str]]) -> object:
            kept = [one for one in headers if one[0] not in ("Content-Length", "Content-Encoding")]
            return start_response(status, [*kept, ("Content-Length", str(len(body)))])

        list(app({**environ, "PATH_INFO": like}, start))
        return [body]

    return outer


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """1,000 nodes, and a journal of jobs that ended an hour ago."""
    folder = tmp_path_factory.mktemp("journal")
    write_past(folder)
    state = busy_state(1_000)
    state.config = state.config.model_copy(update={"paths": Paths(state_dir=folder)})
    with served_page(state, with_visitor) as page:
        page.answers.state_json()
        until_reported(page)
        yield page


def until_reported(page: Page) -> None:
    """Wait for the report: Chromium's virtual time would pass without it."""
    deadline_s = time.monotonic() + 60.0
    while json.loads(page.answers.report_json())["report"] is None:
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


HOSTILE = (
    "<img src=x onerror=alert(1)><script>document.title='hacked'</script>",
    "\"' onmouseover=alert(1) x='javascript:alert(1)",
    "\u202egnp.exe\u2066 \u05d0\u05d1\u05d2 \x00\x1b[2J\r\n\ufffd</td></table>",
    "W" * 1_000,
)


@pytest.fixture(scope="module")
def few() -> Iterator[Page]:
    """4 nodes; texts that come from users and from Slurm are hostile."""
    state = busy_state(4)
    state.slurm_fault = HOSTILE[0]
    for number, text in enumerate(HOSTILE):
        job_id = JobId(str(90_000 + number))
        state.unmanaged[job_id] = UnmanagedJob(reason=text, is_blocked=True)
        state.owners[job_id] = Owner(1_000, text, name=text, account=text, qos=text)
    with served_page(state, with_visitor) as page:
        yield page


def browse(page: Page, folder: Path, *options: str, path: str = "visited") -> tuple[str, list[str]]:
    chromium = shutil.which("chromium")
    if chromium is None:
        missing("no chromium here; on Debian: apt-get install chromium")
    assert chromium is not None
    argv = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    argv += [f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr"]
    argv += ["--virtual-time-budget=20000", *options, f"{page.url}{path}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=200)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def visited(page: Page, folder: Path, width: int) -> Visit:
    dom, console = browse(page, folder, f"--window-size={width},1200", "--dump-dom")
    found = re.search(r'<pre id="seen">(.*?)</pre>', dom, re.S)
    assert found is not None, (console, dom[-2_000:])
    return Visit(json.loads(html.unescape(found[1])), console)


@pytest.fixture(scope="module", params=WIDTHS)
def visit(
    request: pytest.FixtureRequest, crowd: Page, tmp_path_factory: pytest.TempPathFactory
) -> Visit:
    return visited(crowd, tmp_path_factory.mktemp("visit"), request.param)


def test_a_thousand_nodes_fit_windows_of_any_width(visit: Visit) -> None:
    assert visit.console == []
    assert (visit.seen["tiles"], visit.seen["cells"]) == (1_000, 8_000)
    views = (visit.seen, *(visit.seen[name] for name in ("node", "job", "report")))
    for widths in (view["widths"] for view in views):
        assert widths["needed"] <= widths["window"]


def test_every_view_colours_the_gpus_and_explains_its_colours(visit: Visit) -> None:
    assert tuple(visit.seen["views"]) == VIEWS
    for name, view in visit.seen["views"].items():
        assert view["checked"] == [name]
        assert view["kinds"] > 2, name
        assert "faulty" in view["legend"]


def test_dark_and_light_differ_and_the_system_decides_unless_told(visit: Visit) -> None:
    themes = visit.seen["themes"]
    assert set(themes) == {"dark", "light", "system"}
    assert themes["dark"] != themes["light"] == themes["system"]


def test_a_node_and_a_job_open_and_close(visit: Visit) -> None:
    node, job = visit.seen["node"], visit.seen["job"]
    assert (node["title"], node["rows"], node["rings"]) == ("gpu0001", 8, 8)
    assert "node=gpu0001" in node["hash"]
    assert visit.seen["closed"]
    assert job["title"].startswith("Job ")
    assert job["chosen"] == 1
    assert "Candidates, best first" in job["text"]
    assert visit.seen["found"] == ["gpu0002"]


def test_the_queue_the_placements_modes_and_timers_are_there(visit: Visit) -> None:
    seen = visit.seen
    assert seen["queue"] >= 3
    assert seen["placed"] == 200  # the newest
    assert seen["modes"] == "debugshadowmainenforce"
    assert "No job has waited for closer GPUs yet" in seen["timers"]
    assert seen["title"] == "alpha · Roost"
    assert seen["alerts"]


def test_the_report_of_the_journal_opens(visit: Visit) -> None:
    report = visit.seen["report"]
    assert re.fullmatch(r"read \d+ s ago", report["about"])
    assert "report=open" in report["hash"]
    assert report["rows"] == 2  # one partition, watched and enforced
    assert report["values"][:3] == ["30", "0 %", "100 %"]
    assert "Slurm's 5 %: +95 points" in report["text"]
    assert "plain Slurm takes 10 % on the same nodes" in report["text"]
    assert "QOSMaxGRESPerUser" in report["text"]


def test_nothing_is_loaded_from_elsewhere_and_every_button_has_a_name(visit: Visit) -> None:
    assert visit.seen["foreign"] == []
    assert visit.seen["unnamed"] == 0


@pytest.fixture(scope="module")
def visit_of_few(few: Page, tmp_path_factory: pytest.TempPathFactory) -> Visit:
    return visited(few, tmp_path_factory.mktemp("visit"), 1_100)


def test_a_few_nodes_are_drawn_with_their_links(visit_of_few: Visit) -> None:
    seen = visit_of_few.seen
    assert seen["tiles"] == 4
    assert seen["links"] > 4 * 8
    for view in (seen, seen["node"], seen["job"]):
        assert view["widths"]["needed"] <= view["widths"]["window"]


def test_hostile_texts_are_shown_as_they_are(visit_of_few: Visit) -> None:
    seen = visit_of_few.seen
    assert visit_of_few.console == []  # neither an alert nor a refused script
    assert seen["title"].endswith("Roost")
    assert HOSTILE[0] in seen["faults"]
    for text in HOSTILE[:3]:
        assert text in seen["waiting"]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_it_can_be_pictured(few: Page, tmp_path: Path, theme: str) -> None:
    picture = tmp_path / "page.png"
    options = ("--window-size=1200,900", f"--screenshot={picture}")
    browse(few, tmp_path, *options, path=f"#theme={theme}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 60_000  # an empty page of this size has some 10 kB


def _luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * one for one in digits) if len(digits) == 3 else digits
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _themes() -> dict[str, dict[str, str]]:
    css = (STATIC / "page.css").read_text()
    blocks = {
        "light": r":root \{(.*?)\n\}",
        "system dark": r':root:not\(\[data-theme="light"\]\) \{(.*?)\n  \}',
        "dark": r':root\[data-theme="dark"\] \{(.*?)\n\}',
    }
    found = {}
    for name, pattern in blocks.items():
        block = re.search(pattern, css, re.S)
        assert block is not None
        found[name] = dict(re.findall(r"--([\w-]+):\s*([^;]+);", block[1]))
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ink", ["ink", "dim", "accent", "good", "warn", "bad"])
@pytest.mark.parametrize("ground", ["panel", "ground"])
def test_text_can_be_read(theme: str, ink: str, ground: str) -> None:
    # WCAG 2.2, 1.4.3: 4.5 for text of this size; the coloured words are bold.
    values = _themes()[theme]
    high, low = sorted((_luminance(values[ink]), _luminance(values[ground])), reverse=True)
    least = 4.5 if ink in ("ink", "dim") else 3.0
    assert (high + 0.05) / (low + 0.05) >= least


def test_dark_is_the_same_by_choice_and_by_the_system() -> None:
    themes = _themes()
    assert themes["dark"] == themes["system dark"]
