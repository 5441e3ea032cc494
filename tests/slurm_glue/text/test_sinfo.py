"""The states of a few nodes by sinfo."""

import pytest

from roost_slurm.text.sinfo import node_states, parse_node_states, takes_jobs


def test_asks_for_these_nodes_alone() -> None:
    argv = node_states(["n1", "n2", "n7"])
    assert argv[0] == "sinfo"
    assert argv[argv.index("-n") + 1] == "n[1-2,7]"


def test_a_node_in_two_partitions_has_two_lines_and_other_lines_are_left_out() -> None:
    text = "n1 idle\nn1 idle\nn2 drained*\n\nslurm_load_node error: no\n"
    assert parse_node_states(text) == {"n1": "idle", "n2": "drained*"}


@pytest.mark.parametrize("state", ["idle", "mixed", "mixed-", "allocated+", "planned", "idle~"])
def test_an_open_node_takes_jobs(state: str) -> None:
    assert takes_jobs(state)


@pytest.mark.parametrize(
    "state", ["drained", "draining", "down", "down*", "idle*", "unknown*", "maint", "inval", ""]
)
def test_a_closed_or_silent_node_takes_none(state: str) -> None:
    assert not takes_jobs(state)
