"""The report as a file: complete in itself, and safe whatever is in it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.simulator.sweeps.cases import done, sweep

from roost_sim.errors import SimError
from roost_sim.sweeps.comparison import Comparison
from roost_sim.sweeps.report.document import report_document
from roost_sim.sweeps.report.page import page_of, write_report
from roost_sim.sweeps.sweep import Case, Failed
from roost_sim.sweeps.sweep_runner import Collected
from roost_sim.worlds.world_spec import WorldSpec

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
    assert addresses == {"http://www.w3.org/2000/svg"}  # the name of SVG, which nobody fetches
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


def test_what_failed_is_told() -> None:
    found = document(Failed(Case("sjf", 2, None), "too little memory"))
    assert found["failed"] == ["sjf, seed 2: too little memory"]


def test_the_world_is_told_as_it_was() -> None:
    world = WorldSpec(congestion=2.0, exclude_families=("bert", "lm"))
    busy = replace(sweep(), template=replace(sweep().template, world=world))
    comparison = Comparison.of(RUNS, ["fifo", "sjf"], [None], "fifo")
    setting = report_document(comparison, busy, Collected(), "")["setting"]
    assert isinstance(setting, dict)
    assert setting["world"] == (
        "speed measured; links shared; neighbours slow each other; restart cost measured; "
        "durations told to oracles: oracle; congestion × 2; without bert, lm"
    )


def test_curves_pool_the_seeds_and_heat_is_the_first_seeds() -> None:
    found = embedded(page_of(document()))
    assert isinstance(found, dict)
    line = found["loads"][0]["policies"][0]
    assert line["jct_s"] == [1.0, 1.0, 2.5, 2.5]
    assert line["tiers"] == [4, 0, 0]
    assert line["left_out"] == [["too large", 2]]
    assert line["heat"] == ["0W"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SimError, match=r"x.html: cannot be written: No such file"):
        write_report(tmp_path / "no" / "x.html", document())
