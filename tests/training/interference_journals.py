"""Journals in which the true cost of neighbours is known."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from roost_engine.cluster.features import PCIE_HALF_BYTES_PER_S
from roost_engine.domain.config import EngineConfig
from roost_engine.domain.events import (
    Event,
    JobEnded,
    JobQueued,
    JobStarted,
    NodeSeen,
    SpeedSeen,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.domain.topology import Level, Link, LinkMatrix
from roost_engine.testing.builders import job, load_seen, node, share, topology
from roost_formats.journal.codec import encode
from roost_formats.journal.journal import Journal
from roost_formats.journal.records import RunHead, Step

DAY_S = 86_400.0
DAYS = 21
JOBS_A_DAY = 6
NODE = NodeName("n1")
OF_OTHERS = 4 / 6  # a neighbour on four of the six other GPUs


def write_journal(folder: Path, cost: Callable[[float], float], noise: float = 0.03) -> Path:
    """Write a journal of three weeks, six pairs of jobs a day on a node of 8 PCIe GPUs.

    Args:
        folder: for it.
        cost: (day) to the log slowdown for full loads of a job and of all its neighbours.
        noise: standard deviation of the reported log slowdowns.
    """
    rng, folder = np.random.default_rng(0), folder / "state"
    folder.mkdir()
    head = RunHead(
        version="",
        policy="heuristic",
        epoch_of_zero_s=1.7e9,
        began_s=0.0,
        config=encode(EngineConfig()),
    )
    journal = Journal.open(folder)
    found: list[Event] = [
        NodeSeen(at_s=0.0, node=node("n1", 8, cpu_count=64)),
        topology("n1", LinkMatrix.uniform(8, Link(Level.SYSTEM))),
    ]
    for number in range(DAYS * JOBS_A_DAY):
        found += _pair(number, number / JOBS_A_DAY, cost, noise, rng)
    journal.write([head, *(Step(event, ()) for event in found)])
    journal.close()
    return folder


def _pair(
    number: int,
    day: float,
    cost: Callable[[float], float],
    noise: float,
    rng: np.random.Generator,
) -> list[Event]:
    at_s, (own, other) = day * DAY_S, rng.uniform(0.2, 0.9, 2)
    ids = [JobId(f"{number}a"), JobId(f"{number}b")]
    load = np.full((8, 4), np.nan, dtype=np.float32)
    load[:2, 2] = own / (1 - own) * PCIE_HALF_BYTES_PER_S
    load[2:6, 2] = other / (1 - other) * PCIE_HALF_BYTES_PER_S
    lost = max(cost(day) * own * other * OF_OTHERS + rng.normal(0, noise), 0.0)
    specs = [replace(job(one, gpus=2), user_id=1000 + number % 7) for one in ids]
    return [
        *(JobQueued(at_s=at_s, job=spec) for spec in specs),
        JobStarted(at_s=at_s + 1, job_id=ids[0], shares=(share("n1", 0, 1),)),
        JobStarted(at_s=at_s + 1, job_id=ids[1], shares=(share("n1", 2, 3, 4, 5),)),
        load_seen(at_s=at_s + 2, name=NODE, load=load),
        SpeedSeen(at_s=at_s + 60, job_id=ids[0], speed_frac=float(np.exp(-lost))),
        *(JobEnded(at_s=at_s + 3_600, job_id=one) for one in ids),
    ]
