"""The page of the report: one HTML file with its style, scripts and figures inside."""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from roost_sim.errors import SimError

_SCRIPTS = ("format.js", "chart.js", "heat.js", "page.js")


def page_of(document: Mapping[str, object]) -> str:
    """Return the page that shows a document of roost_sim.sweeps.report.document."""
    parts = {
        "style": _read("page.css"),
        "data": _json(document),
        "script": "\n".join(_read(name) for name in _SCRIPTS),
    }
    # In one pass: a part may contain text that looks like a placeholder.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: parts[place[1]], _read("page.html"))


def write_report(path: Path, document: Mapping[str, object]) -> None:
    """Write the page to a file.

    Raises:
        SimError: it cannot be written.
    """
    try:
        path.write_text(page_of(document), encoding="utf-8")
    except OSError as error:
        raise SimError(f"{path}: cannot be written: {error.strerror}") from error


def _json(document: Mapping[str, object]) -> str:
    """JSON for a script element, without any text that could close the element."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _read(name: str) -> str:
    return files("roost_sim.sweeps.report").joinpath(name).read_text(encoding="utf-8")
