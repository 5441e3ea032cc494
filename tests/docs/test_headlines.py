"""The percentages at the head of the README are those of the newest tables."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PRESENT = "The present world, and the present stacks"
JUNE = "Helios, June 2020, with its users"
SAID = re.compile(
    r"is (\d+) % lower than under plain Slurm with backfill at 90 % load, and (\d+) % lower at 110 "
    r"% load; on Philly it is (\d+) and (\d+) % lower .*? on the public trace that has users, "
    r"(\d+) % lower at 90 % load and (\d+) % at 110 %"
)


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


def test_the_percentages_of_the_readme_are_those_of_the_tables() -> None:
    wanted = list[int]()
    for _, _, at_90, _, at_110, *_ in rows(RESULTS / "README.md", PRESENT, "roost"):
        wanted += [percent_below(at_90), percent_below(at_110)]
    for row in rows(RESULTS / "order.md", JUNE, "roost-no-preemption")[:2]:  # loads 0.9 and 1.1
        wanted.append(percent_below(row[3]))
    found = SAID.search(" ".join((ROOT / "README.md").read_text().split()))
    assert found is not None, "the sentence with the percentages reads otherwise"
    assert list(map(int, found.groups())) == wanted
    assert len(wanted) == 6
