"""How long a browser takes to show the web page of a cluster, and what that costs roostd's loop.

Chromium opens the page of a state with that many nodes, served over loopback as roostd serves it.
A script beside the page reports when the browser first painted anything, and when every node was
drawn, counted from the start of the navigation. Times are of the wall clock: run it on a machine
that has nothing else to do.
"""

import argparse
import asyncio
import contextlib
import json
import queue
import shutil
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

import _harness

from roostd.ops.metrics_server import serve_wsgi
from roostd.page.app import STATIC, Environ, PageApp, StartResponse
from roostd.page.document import build
from roostd.page.server import LiveAnswers
from roostd.state import DaemonState
from roostd.testing.busy_state import busy_state

PATIENCE_S = 60.0
REPORTER = b"""
const told = () => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const drawn = performance.getEntriesByName("roost-drawn")[0];
  if (!paint || !drawn) return setTimeout(told, 20);
  const sent = performance.getEntriesByType("resource").map((one) => one.transferSize);
  const bytes = sent.reduce((sum, one) => sum + one, 0);
  fetch("/told/" + [paint.startTime, drawn.startTime, bytes].join("/"));
};
told();
"""


def main() -> None:
    """Print the medians over the repeats."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=_harness.whole, default=1_000)
    parser.add_argument(
        "--repeats", type=_harness.whole, default=5, help="visits, each by a fresh browser"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        parser.error("no chromium here; on Debian: apt-get install chromium")
    state = busy_state(options.nodes)
    visits = [_visit(chromium, state) for _ in range(options.repeats)]
    first_ms, drawn_ms, sent_bytes = (
        statistics.median(figures) for figures in zip(*visits, strict=True)
    )
    cost_s, longest_s = _building(state)
    _harness.report(
        {
            "first_paint_ms": first_ms,
            "drawn_ms": drawn_ms,
            "sent_bytes": int(sent_bytes),
            "build_cpu_ms": 1e3 * cost_s,
            "longest_turn_cpu_ms": 1e3 * longest_s,
            "nodes": options.nodes,
        },
        as_json=options.json,
    )


def _visit(chromium: str, state: DaemonState) -> tuple[float, float, float]:
    """Return ms to the first paint, ms until all was drawn, and bytes, of one visit."""
    told: queue.Queue[tuple[float, float, float]] = queue.Queue()
    # A child of the browser may still write its profile when the browser itself has ended.
    profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with _served(state, told) as url, profile as folder:
        argv = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
        argv += [f"--user-data-dir={folder}", "--remote-debugging-port=0", url]
        with subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as browser:
            try:
                return told.get(timeout=PATIENCE_S)
            finally:
                browser.terminate()


@contextlib.contextmanager
def _served(state: DaemonState, told: "queue.Queue[tuple[float, float, float]]") -> Iterator[str]:
    """Serve the page, with the reporter beside it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    page = PageApp(LiveAnswers(state, loop))
    index = (STATIC / "index.html").read_bytes()
    index = index.replace(b"</head>", b'<script src="/reporter.js" defer></script></head>')

    def app(environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = unquote(environ["PATH_INFO"])
        if path.startswith("/told/"):
            first_ms, drawn_ms, sent_bytes = map(float, path.split("/")[2:])
            told.put((first_ms, drawn_ms, sent_bytes))
        if path in ("/visited", "/reporter.js"):
            kind = "text/html" if path == "/visited" else "text/javascript"
            start_response("200 OK", [("Content-Type", kind)])
            return [index if path == "/visited" else REPORTER]
        return page(environ, start_response)

    server = serve_wsgi(app, "127.0.0.1:0", "page")
    try:
        yield f"http://127.0.0.1:{server.server_port}/visited"
    finally:
        server.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def _building(state: DaemonState) -> tuple[float, float]:
    """Return processor seconds of building the document, and of the loop's longest turn in it."""

    async def measured() -> tuple[float, float]:
        building, longest_s, began_s = asyncio.create_task(build(state)), 0.0, time.thread_time()
        while not building.done():
            before_s = time.thread_time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.thread_time() - before_s)
        json.loads(await building)
        return time.thread_time() - began_s, longest_s

    found = [asyncio.run(measured()) for _ in range(5)]
    return statistics.median(cost for cost, _ in found), statistics.median(
        turn for _, turn in found
    )


if __name__ == "__main__":
    main()
