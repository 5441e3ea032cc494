"""Jobs on one GPU slow each other as measured; then whole runs, against the rules of sharing."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.simulator.measured import pairs_file

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_sim.catalogue.compositions import find_policy
from roost_sim.clusters.presets import preset
from roost_sim.errors import SimError
from roost_sim.runs.simulation import Run, introduce, prepare
from roost_sim.traces.fitted_traces import HELIOS
from roost_sim.traces.generator import generate
from roost_sim.worlds.sharing.measured_pairs import Kind, read_pairs
from roost_sim.worlds.sharing.shared_gpus import SharedGpus
from roost_sim.worlds.sharing.sharing_spec import SharingJobs, SharingSpec
from roost_sim.worlds.world import Change, Ended, PlacedWorld, Started
from roost_sim.worlds.world_spec import Speed, WorldSpec

LIGHT, HEAVY, BIG = Kind("light", ""), Kind("heavy", "8"), Kind("heavy", "64")
NODE = NodeName("n1")


def jobs_of(folder: Path, *kinds: Kind, opted_in: int | None = None) -> SharingJobs:
    pairs = read_pairs(pairs_file(folder), "p100")
    ids = [JobId(str(number)) for number in range(1, len(kinds) + 1)]
    count = len(ids) if opted_in is None else opted_in
    return SharingJobs(
        pairs=pairs,
        kind_of=dict(zip(ids, kinds, strict=True)),
        opted_in=frozenset(ids[:count]),
        known_families=(),
        table=(),
        whole_table=(),
    )


def start(number: int, *gpus: int, seat: int = 0) -> Started:
    return Started(JobId(str(number)), (NodeShare(NODE, gpus, seat=seat),))


def world(jobs: SharingJobs) -> SharedGpus:
    return SharedGpus(PlacedWorld(lambda job_id, shares: 0.8), jobs)


def test_two_jobs_on_a_gpu_run_at_their_measured_speeds(tmp_path: Path) -> None:
    shared = world(jobs_of(tmp_path, LIGHT, HEAVY))
    assert dict(shared.rates_after(start(1, 0))) == {"1": 0.8}
    found = dict(shared.rates_after(start(2, 0, seat=1)))
    assert found == {"1": pytest.approx(0.8 * 0.9), "2": pytest.approx(0.8 * 0.88)}
    assert dict(shared.rates_after(Ended(JobId("1")))) == {"2": 0.8}


def test_a_job_on_several_gpus_waits_for_the_slowest(tmp_path: Path) -> None:
    shared = world(jobs_of(tmp_path, HEAVY, LIGHT, HEAVY))
    shared.rates_after(start(1, 0, 1))
    shared.rates_after(start(2, 0, seat=1))
    found = dict(shared.rates_after(start(3, 1, seat=1)))
    assert found == {"1": pytest.approx(0.8 * 0.5), "3": pytest.approx(0.8 * 0.5)}
    assert dict(shared.rates_after(Ended(JobId("3")))) == {"1": pytest.approx(0.8 * 0.88)}


@pytest.mark.parametrize(
    ("kinds", "opted_in", "changes", "what"),
    [
        ((LIGHT,) * 3, 3, (start(1, 0), start(2, 0), start(3, 0)), "job 3 would be the third"),
        ((LIGHT,) * 2, 1, (start(1, 0), start(2, 0)), "without an opt-in"),
        ((BIG, BIG), 2, (start(1, 0), start(2, 0)), "do not fit together"),
    ],
)
def test_what_never_happens_is_refused(
    tmp_path: Path,
    kinds: tuple[Kind, ...],
    opted_in: int,
    changes: tuple[Change, ...],
    what: str,
) -> None:
    shared = world(jobs_of(tmp_path, *kinds, opted_in=opted_in))
    for change in changes[:-1]:
        shared.rates_after(change)
    with pytest.raises(SimError, match=what):
        shared.rates_after(changes[-1])


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    seed=st.integers(0, 99),
    load=st.sampled_from([20.0, 80.0]),
    policy=st.sampled_from(["roost-no-preemption", "roost", "fifo"]),
    rule=st.sampled_from(
        ["blind", "all-measured:0.5", "measured:0.4", "lucid-terciles", "lif:0.5"]
    ),
)
def test_no_run_puts_a_third_job_on_a_gpu(
    tmp_path: Path, seed: int, load: float, policy: str, rule: str
) -> None:
    """The world raises on a third job, on one that did not opt in, and on too little memory."""
    pairs = read_pairs(pairs_file(tmp_path), "p100")
    cluster = preset("small")
    run = Run(
        trace=generate(HELIOS, 60, seed, max_gpu_count=16).at_load(load, cluster.gpu_count),
        cluster=cluster,
        policy=find_policy(f"{policy}@{rule}"),
        world=WorldSpec(speed=Speed.TRACE, sharing=SharingSpec(pairs=pairs, digest=pairs.digest)),
        seed=seed,
    )
    prepared = prepare(run)
    driver = prepared.driver
    driver.begin(introduce(cluster, has_seats=True), prepared.arrivals)
    while driver.advance():
        driver.engine.check_invariants()
    outcome = driver.finish()
    assert all(job.ended_s is not None for job in outcome.jobs)
