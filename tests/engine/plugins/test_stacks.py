"""Stacks: every one is complete, and knows itself by name."""

from dataclasses import replace
from math import inf

import pytest

from roost_engine.plugins.stacks import DEFAULT, STACKS, OrderKind, PreemptionKind, Stack
from roost_formats.journal.codec import decode, encode


def test_a_stack_is_found_under_its_own_name() -> None:
    assert [stack.name for stack in STACKS.values()] == list(STACKS)
    assert STACKS["default"] is DEFAULT


@pytest.mark.parametrize("name", STACKS)
def test_a_stack_survives_the_journal(name: str) -> None:
    assert decode(encode(STACKS[name]), Stack) == STACKS[name]


@pytest.mark.parametrize("name", STACKS)
def test_only_a_stack_that_stops_jobs_may_leave_a_job_without_a_reservation(name: str) -> None:
    # Without either, other jobs could pass a large job for ever.
    stack = STACKS[name]
    assert stack.patience_s < inf or stack.preemption is not PreemptionKind.NONE


def test_a_name_says_whether_jobs_are_stopped_and_unasked_none_is() -> None:
    stopping = {name for name, s in STACKS.items() if s.preemption is not PreemptionKind.NONE}
    asked_for = {name for name in STACKS if not name.endswith("-no-preemption")} - {DEFAULT.name}
    assert stopping == asked_for


def test_the_default_stack_is_the_same_under_both_of_its_names() -> None:
    assert replace(STACKS["default-no-preemption"], name=DEFAULT.name) == DEFAULT


def test_slurms_priority_decides_unless_a_stack_was_chosen_for_another_order() -> None:
    assert DEFAULT.order is OrderKind.PRIORITY
    assert {n for n, s in STACKS.items() if s.order is OrderKind.PRIORITY} == {
        "default",
        "default-no-preemption",
    }
