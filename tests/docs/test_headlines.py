"""The percentages at the head of the README are those of the newest tables."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PRESENT = "The present world, and the present stacks"
JUNE = "Helios, June 2020, with its users"
STEADY = "roost-no-preemption"
AT_90, AT_110 = 3, 8  # columns of the ratio to plain Slurm
SAID = re.compile(r"\| `(roost[a-z-]*)`[^|]*\| -(\d+) % \| -(\d+) % \|")


def rows(page: Path, heading: str, policy: str) -> list[list[str]]:
    """Return the cells of a policy's rows in all tables of a section, in order."""
    text = page.read_text()
    section = text[text.index(f"\n## {heading}\n") + 1 :].split("\n## ")[0]
    lines = (line for line in section.splitlines() if line.startswith("|"))
    cells = ([cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines)
    return [found for found in cells if f"`{policy}`" in found[:2]]


def percent_below(ratio: str) -> int:
    """Return how many per cent less than plain Slurm's a ratio such as `0.89 ± 0.08` is."""
    return round(100 * (1 - float(ratio.split("±")[0])))


def head(page: Path) -> str:
    """Return what a page says before its first section."""
    return page.read_text().split("\n## ")[0]


@pytest.mark.parametrize("page", sorted(RESULTS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_of_results_begins_with_the_answer_in_a_table(page: Path) -> None:
    lines = head(page).splitlines()
    first = next((number for number, line in enumerate(lines) if line.startswith("|---")), None)
    assert first is not None, "no table before the first section"
    assert first < 15


def test_the_answer_of_the_results_is_that_of_the_newest_tables() -> None:
    pages = {"README.md": PRESENT, "order.md": JUNE}
    newest = "".join(
        (RESULTS / name).read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        for name, section in pages.items()
    )
    ratios = re.findall(r"\d\.\d\d ± \d\.\d\d", head(RESULTS / "README.md"))
    assert len(ratios) == 14
    assert [ratio for ratio in ratios if ratio not in newest] == []


def test_the_percentages_of_the_readme_are_those_of_the_tables() -> None:
    wanted = list[int]()
    preempting, steady = (rows(RESULTS / "README.md", PRESENT, name) for name in ("roost", STEADY))
    for row in (*preempting, steady[-1]):
        wanted += [percent_below(row[AT_90]), percent_below(row[AT_110])]
    for row in rows(RESULTS / "order.md", JUNE, STEADY)[:2]:  # loads 0.9 and 1.1
        wanted.append(percent_below(row[3]))
    said = SAID.findall((ROOT / "README.md").read_text())
    assert [policy for policy, *_ in said] == ["roost", "roost", STEADY, STEADY]
    assert [int(percent) for _, *percents in said for percent in percents] == wanted
