"""The report in a real browser: it draws everything, reacts, and fits any window."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.conftest import missing
from tests.simulator.sweeps.cases import csv_of, jobs

from roost_sim.cli import cli

pytestmark = pytest.mark.browser

POLICIES = ("fifo", "sjf", "random-order", "largest-first")
WIDTHS = (400, 900, 2000)
VISITOR = Path(__file__).with_name("report_visitor.js")
MEASURE = """
<script>
parent.postMessage({ width: innerWidth, needed: document.documentElement.scrollWidth }, "*");
</script>
"""
FRAMES = """
<!doctype html><body><pre id="seen"></pre>
<script>
const found = [];
addEventListener("message", ({ data }) => {
  found.push(data);
  document.getElementById("seen").textContent = JSON.stringify(found);
});
</script>
"""


@dataclass(frozen=True, slots=True)
class Visit:
    """What the browser made of a page."""

    dom: str
    console: list[str]

    @property
    def seen(self) -> object:
        """What the page's visitor told."""
        found = re.search(r'<pre id="seen">(.*?)</pre>', self.dom, re.S)
        assert found is not None
        return json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    trace, page = folder / "jobs.csv", folder / "out.html"
    trace.write_text(csv_of(jobs(60)) + "420,50,64\n430,10,999\n")
    argv = ["compare", "--trace", trace, "--cluster", "small", "--policies", ",".join(POLICIES)]
    argv += ["--seeds", "0,1", "--load", "0.9,1.5", "--processes", "1", "--report", page]
    result = CliRunner().invoke(cli, [str(argument) for argument in argv])
    assert result.exit_code == 0, result.output
    return page


def browse(page: Path, *options: str) -> Visit:
    chromium = shutil.which("chromium")
    if chromium is None:
        missing("no chromium here; on Debian: apt-get install chromium")
    assert chromium is not None
    argv = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    argv += [f"--user-data-dir={page.parent / 'profile'}", "--enable-logging=stderr"]
    argv += ["--virtual-time-budget=1000", *options, page.as_uri()]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    return Visit(done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line])


@pytest.fixture(scope="module")
def visit(report: Path) -> Visit:
    page = report.with_name("visited.html")
    page.write_text(
        report.read_text().replace("</body>", f"<script>{VISITOR.read_text()}</script></body>")
    )
    return browse(page, "--window-size=1400,2000", "--dump-dom")


def test_the_console_stays_empty(visit: Visit) -> None:
    assert visit.console == []


def test_an_error_in_the_page_would_be_seen(report: Path) -> None:
    page = report.with_name("broken.html")
    page.write_text(report.read_text().replace("fillAbout();", "fillNothing();"))
    assert "fillNothing" in "".join(browse(page, "--dump-dom").console)


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_has_its_rows_lines_and_strip_at_each_load(visit: Visit, policy: str) -> None:
    assert len(re.findall(f'<tr data-policy="{policy}"', visit.dom)) == 4  # two tables
    lines = re.findall(rf'<path class="line[^"]*" data-policy="{policy}" d="(M[^"]+)"', visit.dom)
    assert len(lines) == 4  # completion times and queue, at two loads
    assert all(len(line.split("L")) > 10 for line in lines)
    assert len(re.findall(f'aria-label="Busy GPUs over time under {policy}: ', visit.dom)) == 2


def test_it_says_what_was_run_and_what_was_left_out(visit: Visit) -> None:
    for words in (
        "<title>4 policies on jobs.csv · Roost</title>",
        "62 jobs; cluster small: 64 GPUs in 8 nodes and 2 racks; 2 seeds, 16 runs.",
        "Jobs left out",
        "2 jobs: no placement could ever hold it",
        "--policies fifo,sjf,random-order,largest-first",
        "÷ fifo",
    ):
        assert words in visit.dom


def test_every_figure_has_a_text_alternative(visit: Visit) -> None:
    pictures = re.findall(r'<(?:svg|canvas|div)[^>]*role="img"[^>]*>', visit.dom)
    assert len(pictures) > 20
    assert all('aria-label="' in picture for picture in pictures)
    swatches = re.findall(r'<svg class="swatch"[^>]*>', visit.dom)
    assert all('aria-hidden="true"' in swatch for swatch in swatches)


def test_it_reacts(visit: Visit) -> None:
    seen = visit.seen
    assert isinstance(seen, dict)
    assert seen["shades"] > 3
    hidden, text = seen["chartTip"]
    assert not hidden
    assert all(policy in text for policy in POLICIES)
    assert "GPUs busy" in seen["heatTip"][1]
    assert (seen["hiddenLine"], seen["shownLine"]) == (True, True)
    assert sorted(seen["ascending"]) == sorted(POLICIES)
    assert seen["ascending"] == seen["descending"][::-1]
    assert seen["lit"] == 2
    assert seen["sections"] == [True, False]


def test_it_fits_every_window(report: Path) -> None:
    # The browser's own window has a least width; a frame has none.
    inner, outer = report.with_name("inner.html"), report.with_name("frames.html")
    inner.write_text(report.read_text().replace("</body>", f"{MEASURE}</body>"))
    frames = "".join(
        f'<iframe src="inner.html" width="{w}" style="border:0"></iframe>' for w in WIDTHS
    )
    outer.write_text(FRAMES + frames)
    seen = browse(outer, "--dump-dom").seen
    assert isinstance(seen, list)
    assert sorted(one["width"] for one in seen) == list(WIDTHS)
    assert all(one["needed"] <= one["width"] for one in seen)


def test_it_can_be_pictured_and_printed(report: Path) -> None:
    picture, paper = report.with_name("page.png"), report.with_name("page.pdf")
    browse(report, "--window-size=1000,1400", f"--screenshot={picture}")
    browse(report, f"--print-to-pdf={paper}")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 30_000  # an empty page of this size has some 5 kB
    assert paper.read_bytes().startswith(b"%PDF")
