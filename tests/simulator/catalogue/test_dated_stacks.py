"""Stacks under their dates: each is an earlier form of a stack, made of parts that exist."""

import re
from pathlib import Path

import pytest
from tests.simulator.hand_worked import NO_INFORMATION

from roost_engine.plugins.stacks import STACKS
from roost_sim.catalogue.compositions import POLICIES
from roost_sim.catalogue.dated_stacks import DATED_STACKS, DatedStack

DATE = re.compile(r"-20\d\d-\d\d(-\d\d[b-z]?)?$")
PAGE = Path(__file__).parents[3] / "docs/stacks.md"


@pytest.mark.parametrize("dated", DATED_STACKS, ids=lambda dated: dated.name)
def test_a_dated_stack_is_an_earlier_form_of_a_stack_and_on_its_page(dated: DatedStack) -> None:
    name, date_count = DATE.subn("", dated.name)
    assert date_count == 1
    assert name in STACKS
    assert f"`{dated.name}`" in PAGE.read_text()


@pytest.mark.parametrize("dated", DATED_STACKS, ids=lambda dated: dated.name)
def test_a_dated_stack_has_the_parts_that_are_written_here(dated: DatedStack) -> None:
    policy = POLICIES[dated.name]
    assert {part: getattr(policy, part) for part in dated._fields} == dated._asdict()
    policy.build(NO_INFORMATION)


def test_no_two_dated_stacks_have_the_same_parts() -> None:
    assert len({stack._replace(name="") for stack in DATED_STACKS}) == len(DATED_STACKS)
