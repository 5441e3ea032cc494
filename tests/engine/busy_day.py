"""A made-up day of a small cluster, and a digest of the engine's actions on it.

Run as a program this module prints the digest: `python -m tests.engine.busy_day SEED`.
"""

import hashlib
import sys
from collections.abc import Iterable
from random import Random

import numpy as np

from roost_engine.domain.actions import Action, Place
from roost_engine.domain.events import JobChanged, JobWithdrawn, NodeSeen
from roost_engine.domain.model import JobId, JobSpec, NodeName
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState
from roost_engine.testing.builders import (
    EngineHarness,
    bridges,
    job,
    load_seen,
    node,
    nvswitch,
    shape,
    topology,
)

NODE_COUNT = 8
EVENT_COUNT = 300


def busy_day(seed: int, names: list[str] | None = None) -> EngineHarness:
    """Feed the events of a day to a new engine and return its harness.

    Args:
        seed: determines everything but the names.
        names: names of the nodes, in the order in which Slurm reports them.
    """
    random = Random(seed)
    names = names or [f"n{number}" for number in range(NODE_COUNT)]
    harness = EngineHarness(config=EngineConfig(patience_s=120.0))
    for number, name in enumerate(names):
        spec = node(
            name, rack=f"r{number // 4}", features=["a100"] if number % 2 else ["a100", "ib"]
        )
        harness.feed(NodeSeen(at_s=0.0, node=spec))
        harness.feed(topology(name, bridges() if number < 5 else nvswitch()))
    for number in range(EVENT_COUNT):
        harness.advance(harness.now_s + random.choice([0.0, 1.0, 5.0]))
        _happen(harness, random, number, names)
    return harness


def _happen(harness: EngineHarness, random: Random, number: int, names: list[str]) -> None:
    running = _in_state(harness, JobState.RUNNING)
    match random.randrange(10):
        case 0 | 1 | 2 | 3:
            harness.queue(_some_job(str(number), random, harness.now_s, names))
            if random.random() < 0.9:
                harness.start()
        case 4 | 5 if running:
            harness.end(random.choice(running))
        case 6 if running:
            harness.queue(job(random.choice(running), gpus=2, submit_s=harness.now_s))
        case 7 if waiting := harness.engine.waiting():
            spec = _some_job(random.choice(waiting), random, harness.now_s, names)
            harness.feed(JobChanged(at_s=harness.now_s, job=spec))
        case 8 if waiting := harness.engine.waiting():
            job_id = random.choice(waiting)
            harness.feed(JobWithdrawn(at_s=harness.now_s, job_id=job_id, reason="held"))
        case _:
            load = [[random.random(), random.random(), 1e10, 1e11] for _ in range(8)]
            name = NodeName(random.choice(names))
            loads = np.array(load, dtype=np.float32)
            harness.feed(load_seen(at_s=harness.now_s, name=name, load=loads))


def _some_job(job_id: str, random: Random, at_s: float, names: list[str]) -> JobSpec:
    gang = random.random() < 0.2
    wanted = shape(random.choice([1, 2, 2, 4, 8]), 2 if gang else 1)
    return job(
        job_id,
        wanted,
        submit_s=at_s,
        priority=random.choice([0, 0, 1]),
        features=["ib"] if random.random() < 0.2 else [],
        excluded=[random.choice(names)] if random.random() < 0.2 else [],
        binding=random.random() < 0.9,
        eligible_s=at_s + 20.0 if random.random() < 0.1 else 0.0,
    )


def _in_state(harness: EngineHarness, state: JobState) -> list[JobId]:
    return [job_id for job_id, record in harness.engine.known_jobs() if record.state is state]


def digest(actions: Iterable[Action]) -> str:
    """Return a hash of the actions, every byte of every decision included."""
    sha256 = hashlib.sha256()
    for action in actions:
        if isinstance(action, Place):
            told = action.decision.get()
            sha256.update(repr((action.job_id, action.placement, told.candidates)).encode())
            sha256.update(repr((told.exclusions, told.free_before, told.policy)).encode())
            for array in (told.features, told.scores, told.link_scores):
                sha256.update(array.tobytes())
        else:
            sha256.update(repr(action).encode())
    return sha256.hexdigest()


if __name__ == "__main__":
    print(digest(busy_day(int(sys.argv[1])).actions))
