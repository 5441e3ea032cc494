"""The table of named policies names the parts that the catalogue composes."""

import re
from pathlib import Path

import pytest

from roost_sim.catalogue.compositions import find_policy

PAGE = Path(__file__).parents[2] / "docs/simulator/policies.md"
ROW = re.compile(r"^\| `([\w-]+)` \| `([^`+]+(?:\+[^`+]+){3})` \|$", re.MULTILINE)
COMPOSED = ROW.findall(PAGE.read_text(encoding="utf-8"))


def test_the_page_composes_roosts_stacks() -> None:
    assert {name for name, _ in COMPOSED} > {"roost", "roost-no-preemption", "roost-learned"}


@pytest.mark.parametrize(("name", "parts"), COMPOSED)
def test_a_named_policy_has_the_parts_that_the_page_says(name: str, parts: str) -> None:
    found = find_policy(name)
    assert parts.split("+") == [found.order, found.placement, found.gate, found.preemption]
