"""The pages: no link leads nowhere, and the examples of the link score are true."""

import re
from pathlib import Path

import pytest

from roost_engine.cluster.link_table import LinkTable
from roost_engine.domain.topology import LEVEL_SCORES, NVLINK_LANE_SCORE, parse_topo_matrix

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], key=lambda page: page.as_posix()
)
LINKS_PAGE = (ROOT / "docs" / "links.md").read_text()
MATRICES = ROOT / "probes" / "roost_probe" / "testing" / "topologies"
SOURCES = (
    "benchmarks",
    "cli",
    "daemon",
    "deploy",
    "engine",
    "formats",
    "probes",
    "proto",
    "simulator",
    "slurm_glue",
    "tests",
    "training",
)
SUFFIXES = {".c", ".lua", ".proto", ".py", ".service", ".sh", ".yaml"}
EXAMPLES = re.findall(r"^\| `(\w+)` \| ([\d,]+) \| (\d+) \| (\d+) \|$", LINKS_PAGE, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (page.parent / target).exists()] == []


def test_pages_that_the_code_names_exist() -> None:
    sources = [path for folder in SOURCES for path in (ROOT / folder).rglob("*.*")]
    named = {
        (source.relative_to(ROOT).as_posix(), page)
        for source in sources
        if source.suffix in SUFFIXES
        for page in re.findall(r"docs/[\w./-]+\.md", source.read_text())
    }
    assert len(named) > 10
    assert {(source, page) for source, page in named if not (ROOT / page).exists()} == set()


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text()
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert {page for page in pages - {"README.md"} if f"({page})" not in index} == set()


def test_there_are_examples_of_the_link_score() -> None:
    assert len(EXAMPLES) >= 8


@pytest.mark.parametrize(("name", "gpus", "score", "best"), EXAMPLES, ids=str)
def test_examples_of_the_link_score_are_true(name: str, gpus: str, score: str, best: str) -> None:
    matrix = parse_topo_matrix((MATRICES / f"{name}.txt").read_text(), name)
    indices = [int(index) for index in gpus.split(",")]
    table = LinkTable(matrix)
    assert matrix.score(indices) == int(score)
    assert table.best_score(table.full_mask, len(indices)) == int(best)


def test_points_on_the_page_are_those_in_the_code() -> None:
    points = re.findall(r"^\| [^|]+ \| `[A-Z]+` \| (\d+) \|$", LINKS_PAGE, re.MULTILINE)
    assert sorted(map(int, points)) == sorted(LEVEL_SCORES.values())
    assert f"{NVLINK_LANE_SCORE} × n" in LINKS_PAGE


def test_modules_that_the_glossary_names_exist() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text()
    named = re.findall(r"`([\w/]+(?:\.py|/\w+))`", page)
    assert len(named) > 20
    missing = [
        path
        for path in named
        if not (ROOT / path).exists() and not (ROOT / "engine" / "roost_engine" / path).exists()
    ]
    assert missing == []
