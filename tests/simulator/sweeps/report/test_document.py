"""The content of the report."""

import json
import re
from dataclasses import replace

from tests.simulator.sweeps.cases import done, sweep

from roost_sim.sweeps.comparison import Comparison
from roost_sim.sweeps.report.document import report_document
from roost_sim.sweeps.report.page import page_of
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


def test_failed_cases_are_listed() -> None:
    found = document(Failed(Case("sjf", 2, None), "too little memory"))
    assert found["failed"] == ["sjf, seed 2: too little memory"]


def test_the_world_is_described() -> None:
    world = WorldSpec(congestion=2.0, exclude_families=("bert", "lm"))
    busy = replace(sweep(), template=replace(sweep().template, world=world))
    comparison = Comparison.of(RUNS, ["fifo", "sjf"], [None], "fifo")
    setting = report_document(comparison, busy, Collected(), "")["setting"]
    assert isinstance(setting, dict)
    assert setting["world"] == (
        "speed measured; links shared; neighbours slow each other; "
        "links inside nodes count; restart cost measured; "
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
