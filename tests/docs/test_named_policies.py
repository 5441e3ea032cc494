"""Policies on the pages: the table has the parts of the catalogue, and calls name real ones."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from tests.docs.commands import blocks, calls

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


NAMED = sorted(
    {
        (block.where, name)
        for block in blocks()
        for program, words in calls(block.script)
        if program == "roost-sim"
        for option, names in pairwise(words)
        if option in {"--policy", "--policies", "--baseline"}
        for name in names.split(",")
        if not re.search(r"[${}:/]", name)  # of the shell, or a file of a model
    }
)


def test_calls_of_the_pages_name_policies() -> None:
    assert len({name for _, name in NAMED}) > 20


@pytest.mark.parametrize(("where", "name"), NAMED)
def test_a_policy_in_a_call_of_the_pages_exists(where: str, name: str) -> None:
    assert find_policy(name).name, where
