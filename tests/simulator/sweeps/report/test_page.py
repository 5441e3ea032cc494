"""The page of the report: complete in itself, and safe for any name in it."""

import json
import re
from pathlib import Path

import pytest
from tests.simulator.sweeps.cases import done, sweep

from roost_sim.errors import SimError
from roost_sim.sweeps.comparison import Comparison
from roost_sim.sweeps.report.document import report_document
from roost_sim.sweeps.report.page import page_of, write_report
from roost_sim.sweeps.sweep import Failed
from roost_sim.sweeps.sweep_runner import Collected

RUNS = [done(name, seed, avg_jct_s=10.0 + seed) for name in ("fifo", "sjf") for seed in (0, 1)]


def document(*failed: Failed, command: str = "roost-sim compare") -> dict[str, object]:
    comparison = Comparison.of(RUNS, ["fifo", "sjf"], [None], "fifo")
    return report_document(comparison, sweep(), Collected(failed=list(failed)), command)


def embedded(page: str) -> object:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def test_the_page_needs_nothing_else() -> None:
    page = page_of(document())
    assert "{{style}}" not in page
    addresses = set(re.findall(r"https?://[^\s\"'<)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # the namespace of SVG, which is not fetched
    assert re.findall(r"\b(?:src|href)=\"([^\"]*)\"", page) == ["data:,"]
    assert not re.search(r"@import|\bfetch\(|XMLHttpRequest|import\(", page)


def test_the_page_holds_the_document() -> None:
    assert embedded(page_of(document())) == json.loads(json.dumps(document()))


def test_nothing_in_a_name_can_leave_the_data() -> None:
    command = "roost-sim </script><script>alert(1)</script> {{script}}"
    page = page_of(document(command=command))
    assert "<script>alert" not in page
    found = embedded(page)
    assert isinstance(found, dict)
    assert found["command"] == command


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SimError, match=r"x.html: cannot be written: No such file"):
        write_report(tmp_path / "no" / "x.html", document())
