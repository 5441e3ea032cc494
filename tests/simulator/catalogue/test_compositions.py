"""Policies by name: compositions, and what a wrong name says."""

import re
from math import inf

import pytest

from roost_engine.domain.config import WIDER_AFTER_S
from roost_engine.engine import EngineConfig, Passing
from roost_sim.catalogue.compositions import POLICIES, PolicyNameError, find_policy
from roost_sim.worlds.fidelity import Regime

SHORT_NAMES = (
    *("fifo", "sjf", "srtf", "las", "srsf", "drf", "tetris", "optimus", "themis", "gandiva"),
    *("tiresias", "slurm", "slurm-switches", "lif", "lwf", "asrpt", "random", "dally", "s-rank"),
    *("first-fit", "load-balance"),
)


def test_every_short_name_exists() -> None:
    assert not set(SHORT_NAMES) - set(POLICIES)


def test_short_names_consolidate_unless_their_definition_says_where_jobs_go() -> None:
    placements = {name: POLICIES[name].placement for name in SHORT_NAMES}
    assert {name: part for name, part in placements.items() if part != "consolidation"} == {
        "dally": "first-found",
        "first-fit": "first-fit",
        "lif": "lif",
        "load-balance": "load-balance",
        "lwf": "lwf-1",
        "random": "random",
        "slurm": "slurm-24.05",
        "slurm-switches": "slurm-switches",
        "tetris": "tetris",
        "tiresias": "skew",
    }


def test_a_composition_is_written_with_plus_signs() -> None:
    policy = find_policy("sjf+strict+block+none")
    assert (policy.order, policy.placement, policy.gate) == ("sjf", "strict", "block")
    assert policy.engine_config(EngineConfig()).passing is Passing.NOBODY
    assert policy.regime is Regime.ORACLE


def test_parts_left_off_take_the_default() -> None:
    policy = find_policy("sjf+strict")
    assert (policy.gate, policy.preemption) == ("open", "none")
    assert policy.engine_config(EngineConfig(patience_s=5.0)).patience_s == inf
    patient = find_policy("sjf+strict+patient")
    numbers = EngineConfig(patience_s=5.0, wider_after_s=WIDER_AFTER_S)
    assert patient.engine_config(EngineConfig(patience_s=5.0)) == numbers


def test_a_job_waits_for_a_tight_shape_as_long_as_in_roostd_but_in_stacks_of_before() -> None:
    for name in ("default", "roost", "roost-no-preemption"):
        assert find_policy(name).engine_config(EngineConfig()).wider_after_s == WIDER_AFTER_S
    for name in ("default-2026-11-28b", "roost-2026-11-28", "roost-no-preemption-2026-11-28c"):
        assert find_policy(name).engine_config(EngineConfig()).wider_after_s == inf


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("fifi", "no policy 'fifi': did you mean fifo?"),
        ("fifo+consolidate", "no placement 'consolidate': did you mean consolidation?"),
        ("xyz+strict", "no order 'xyz': there are fifo, "),
        ("fifo+strict+open+none+more", "at most order"),
    ],
)
def test_a_wrong_name_says_what_is_nearest(name: str, complaint: str) -> None:
    with pytest.raises(PolicyNameError, match=re.escape(complaint)):
        find_policy(name)
