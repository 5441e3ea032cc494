"""The same events give the same actions: in another process, in a replay, with other names."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from tests.engine.busy_day import NODE_COUNT, busy_day, digest

from roost_engine.domain.actions import Place
from roost_engine.engine import Engine
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies

ROOT = Path(__file__).parents[2]


def digest_elsewhere(seed: int, hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "tests.engine.busy_day", str(seed)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.strip()


def test_processes_with_different_hash_seeds_give_the_same_actions() -> None:
    assert digest_elsewhere(5, "1") == digest_elsewhere(5, "77") == digest(busy_day(5).actions)


def test_a_busy_day_reaches_most_job_states() -> None:
    harness = busy_day(5)
    assert sum(isinstance(action, Place) for action in harness.actions) > 60
    states = {record.state for _, record in harness.engine.known_jobs(include_ended=True)}
    assert states == set(JobState) - {JobState.CLEARING, JobState.STOPPING}


@pytest.mark.parametrize("seed", range(3))
def test_a_replay_gives_the_same_actions(seed: int) -> None:
    harness = busy_day(seed)
    harness.engine.check_invariants()
    engine = Engine(harness.engine.config, Policies())
    again = [action for event in harness.events for action in engine.step(event)]
    assert digest(again) == digest(harness.actions)


@pytest.mark.parametrize("seed", range(3))
def test_other_node_names_change_only_the_names_in_placements(seed: int) -> None:
    names = [f"n{number}" for number in range(NODE_COUNT)]
    others = [f"gpu-{letter}" for letter in "hgfedcba"]
    Random(seed).shuffle(others)
    renamed = dict(zip(others, names, strict=True))
    places = [action for action in busy_day(seed, names).actions if isinstance(action, Place)]
    there = [action for action in busy_day(seed, others).actions if isinstance(action, Place)]
    assert len(places) == len(there)
    for one, other in zip(places, there, strict=True):
        assert one.job_id == other.job_id
        assert one.placement.gpu_indices == other.placement.gpu_indices
        assert set(one.placement.nodes) == {renamed[name] for name in other.placement.nodes}
