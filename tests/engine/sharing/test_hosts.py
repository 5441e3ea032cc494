"""roost_engine.sharing.hosts: beside which running jobs others get a seat.

Drawn is the job that runs alone on a first seat, and what is known of it and of its node. The job
that comes then is as good as can be: whatever keeps it from the seat is the first job's limit.
"""

from dataclasses import replace
from math import log
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost_engine.domain.events import (
    GpuHealthChanged,
    JobsStopped,
    LinksSeen,
    MemorySeen,
    NodeSeen,
    SpeedSeen,
)
from roost_engine.domain.model import JobId, NodeName
from roost_engine.engine import EngineConfig
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.sharing.pairs import Pairs, PairSpeed, SharingConfig
from roost_engine.testing.builders import EngineHarness, bridges, job, load_seen, node, topology

GIB, N1 = 1 << 30, NodeName("n1")
HOST, GUEST = JobId("1"), JobId("2")
# By the first job's model: what it keeps of its speed beside the second, which keeps 99 %.
KEEPS = {"good": 0.95, "close": 0.87, "bad": 0.6}
PAIRS = tuple(
    pair
    for model, speed in KEEPS.items()
    for pair in (PairSpeed(model, "guest", speed, 0.05), PairSpeed("guest", model, 0.99, 0.02))
)


class First(NamedTuple):
    """The first job, and its node of two linked GPUs."""

    gpus: int = 1
    node_count: int = 1
    shares: bool = True
    binding: bool = True
    model: str = "good"
    stated_gib: int = 10
    seen_gib: int | None = None
    speeds: tuple[float, ...] = ()  # that other jobs of its user reported beside such a guest
    nvlink_frac: float | None = None  # of the time, by the meter of links
    nvlink_bytes_per_s: float = float("nan")  # reported last
    fault: bool = False  # MIG mode, switched on meanwhile
    drains: bool = False
    loses_seats: bool = False
    is_memory_known: bool = True  # of the GPUs, by the probe
    silent_s: float = 0.0  # since the probe's last report
    is_stopping: bool = False


def site_with(first: First) -> EngineHarness:
    """Return a site on which the first job runs; a second that asks for its GPUs waits."""
    rule = Pairs(SharingConfig(pairs=PAIRS))
    site = EngineHarness(config=EngineConfig(), policies=replace(Policies(), sharing=rule))
    for name in ("n1", "n2")[: first.node_count]:
        site.feed(NodeSeen(at_s=0.0, node=replace(node(name, 2), has_seats=True)))
        site.feed(replace(topology(name, bridges(2)), gpu_memory_bytes=40 * GIB))
        if not first.is_memory_known:
            site.feed(topology(name, bridges(2)))
    spec = replace(
        job(HOST, gpus=first.gpus, nodes=first.node_count),
        shares_gpus=first.shares,
        binding=first.binding,
        model=first.model,
        gpu_memory_bytes=first.stated_gib * GIB,
    )
    site.run(spec)
    for number in range(site.engine.cluster.free_gpu_count):
        site.run(job(f"alone-{number}", gpus=1))
    for number, speed in enumerate(first.speeds):
        other = replace(spec, job_id=JobId(f"before-{number}"))
        rule.observe(other, replace(spec, job_id=GUEST, model="guest"), speed)
    if first.seen_gib is not None:
        site.feed(MemorySeen(at_s=1.0, job_id=HOST, used_bytes=first.seen_gib * GIB))
    if first.nvlink_frac is not None:
        fracs = {"nvlink_frac": first.nvlink_frac, "pcie_frac": None}
        site.feed(LinksSeen(at_s=1.0, job_id=HOST, **fracs))
    load = np.full((2, 4), [0.5, 0.5, np.nan, first.nvlink_bytes_per_s], dtype=np.float32)
    site.feed(load_seen(at_s=1.0, name=N1, load=load))
    if first.fault:
        for gpu in range(2):
            site.feed(GpuHealthChanged(at_s=1.0, name=N1, gpu_index=gpu, fault="MIG mode is on"))
    changed = replace(node("n1", 2), has_seats=not first.loses_seats, usable=not first.drains)
    site.feed(NodeSeen(at_s=1.0, node=changed))
    site.advance(1.0 + first.silent_s)
    if first.is_stopping:
        site.feed(JobsStopped(at_s=1.0, job_ids=(HOST,)))
    return site


def ask(site: EngineHarness, first: First, gib: int = 20) -> bool:
    """Queue the second job, which wants as many GPUs; return whether it sits beside the first."""
    spec = replace(job(GUEST, gpus=first.gpus), shares_gpus=True, gpu_memory_bytes=gib * GIB)
    site.queue(replace(spec, model="guest"))
    site.engine.check_invariants()
    return site.state("2") is JobState.PLACING and site.placement("2").seat == 1


def allows(first: First, gib: int) -> bool:
    """Return what the rules say of it, without the engine."""
    is_known_good = False
    if first.model in KEEPS:  # "close" keeps 87 %, but not 85 % with 80 % certainty
        lost = [*[-log(KEEPS[first.model])] * 2, *(-log(speed) for speed in first.speeds)]
        is_known_good = sum(lost) / len(lost) + 0.8416 * 0.05 <= -log(0.85)
    is_heavy = first.gpus > 1 and (
        (first.nvlink_frac or 0.0) > 0.1 or first.nvlink_bytes_per_s > 50e9
    )
    is_known = first.is_memory_known and first.silent_s <= 120.0
    is_there = is_known and not (
        first.fault or first.drains or first.loses_seats or first.is_stopping
    )
    memory_gib = max(first.stated_gib, first.seen_gib or 0) + gib
    return (
        first.node_count == 1
        and first.shares
        and first.binding
        and first.stated_gib > 0
        and memory_gib <= 40
        and is_known_good
        and not is_heavy
        and is_there
    )


FIRSTS = st.builds(
    First,
    gpus=st.sampled_from([1, 2]),
    node_count=st.sampled_from([1, 1, 1, 2]),
    shares=st.sampled_from([True, True, True, False]),
    binding=st.sampled_from([True, True, True, False]),
    model=st.sampled_from(["good", "good", "good", "close", "bad", "", "never seen"]),
    stated_gib=st.sampled_from([10, 10, 20, 30, 0]),
    seen_gib=st.sampled_from([None, None, 5, 20, 25, 60]),
    speeds=st.sampled_from([(), (), (0.9,), (0.85, 0.8), (0.05,), (1.0,)]),
    nvlink_frac=st.sampled_from([None, None, 0.0, 0.05, 0.5]),
    nvlink_bytes_per_s=st.sampled_from([float("nan"), 0.0, 1e9, 300e9]),
    fault=st.sampled_from([False, False, False, True]),
    drains=st.sampled_from([False, False, False, True]),
    loses_seats=st.sampled_from([False, False, False, True]),
    is_memory_known=st.sampled_from([True, True, True, False]),
    silent_s=st.sampled_from([0.0, 60.0, 600.0]),
    is_stopping=st.sampled_from([False, False, False, True]),
)


@settings(max_examples=200)
@given(first=FIRSTS, gib=st.sampled_from([5, 20]))
def test_every_limit_holds_for_the_first_job_too(first: First, gib: int) -> None:
    site = site_with(first)
    is_beside = ask(site, first, gib)
    assert is_beside == allows(first, gib)


@pytest.mark.parametrize(
    "first",
    [
        First(model=""),
        First(model="never seen"),
        First(model="close"),
        First(speeds=(0.05,)),
        First(seen_gib=25),
        First(gpus=2, nvlink_frac=0.5),
        First(gpus=2, nvlink_bytes_per_s=300e9),
        First(node_count=2),
        First(fault=True),
        First(drains=True),
        First(is_memory_known=False),
        First(silent_s=600.0),
        First(loses_seats=True),
    ],
)
def test_one_limit_alone_keeps_the_second_job_away(first: First) -> None:
    assert ask(site_with(First(gpus=first.gpus)), First(gpus=first.gpus))
    assert not ask(site_with(first), first)


def test_a_job_is_offered_again_once_it_is_quiet_and_its_memory_is_that_of_one_run() -> None:
    busy = First(gpus=2, nvlink_bytes_per_s=300e9)
    site = site_with(busy)
    assert not ask(site, busy)
    load = np.full((2, 4), [0.5, 0.5, 0.0, 0.0], dtype=np.float32)
    site.feed(load_seen(at_s=2.0, name=N1, load=load))
    site.advance(10.0)
    assert site.state("2") is JobState.PLACING

    hosts = site_with(First(seen_gib=35)).engine.seating
    assert hosts is not None
    record = job(HOST)
    assert hosts.needs.needed_bytes(record) == 35 * GIB
    hosts.note(JobsStopped(at_s=3.0, job_ids=(HOST,)))
    assert hosts.needs.needed_bytes(record) == 0


def test_a_first_job_that_slowed_is_asked_about_with_its_own_user_s_reports() -> None:
    site = site_with(First())
    assert ask(site, First())
    site.start("2")
    site.feed(SpeedSeen(at_s=5.0, job_id=HOST, speed_frac=0.3))  # beside the second
    site.end("2")
    site.queue(replace(job("3", gpus=1), shares_gpus=True, gpu_memory_bytes=GIB, model="guest"))
    assert site.state("3") is JobState.WAITING
