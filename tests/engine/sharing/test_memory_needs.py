"""roost_engine.sharing.memory_needs: what jobs need of a GPU's memory, as stated and as seen."""

from dataclasses import replace

from roost_engine.domain.events import MemorySeen, NodeSeen
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobState
from roost_engine.plugins.plugins import Policies
from roost_engine.sharing.memory_needs import MemoryNeeds, Overfull
from roost_engine.sharing.pairs import Pairs, PairSpeed, SharingConfig
from roost_engine.sharing.seating import partners_in_words
from roost_engine.testing.builders import EngineHarness, bridges, job, node, topology

GIB = 1 << 30
PAIRS = (PairSpeed("m", "m", 0.95),)


def site_of(*names: str) -> EngineHarness:
    """Return a site of nodes with one GPU of 40 GiB each."""
    site = EngineHarness(policies=Policies(sharing=Pairs(SharingConfig(pairs=PAIRS))))
    for name in names:
        add_node(site, name)
    return site


def add_node(site: EngineHarness, name: str) -> None:
    site.feed(NodeSeen(at_s=site.now_s, node=replace(node(name, 1), has_seats=True)))
    seen = topology(name, bridges(1), site.now_s)
    site.feed(replace(seen, gpu_memory_bytes=40 * GIB))


def asks(job_id: str, gib: int = 20, name: str = "", user_id: int = 7) -> JobSpec:
    return replace(
        job(job_id, gpus=1, user_id=user_id),
        shares_gpus=True,
        gpu_memory_bytes=gib * GIB,
        model="m",
        name=name or f"job-{job_id}-of-{user_id}",
    )


def see(site: EngineHarness, job_id: str, gib: int) -> None:
    site.feed(MemorySeen(at_s=site.now_s, job_id=JobId(job_id), used_bytes=gib * GIB))


def needs_of(site: EngineHarness) -> MemoryNeeds:
    assert site.engine.seating is not None
    return site.engine.seating.needs


def test_a_pair_is_overfull_once_one_of_it_outgrows_what_it_counted_with() -> None:
    site = site_of("n1")
    site.run(asks("1"), asks("2"))
    needs = needs_of(site)
    assert needs.overfull(JobId("1")) is None

    see(site, "2", 21)

    expected = Overfull(JobId("2"), JobId("1"), 21 * GIB, 20 * GIB, 40 * GIB)
    assert needs.overfull(JobId("1")) == needs.overfull(JobId("2")) == expected
    seats = site.engine.cluster.seats
    assert seats is not None
    assert partners_in_words(seats, JobId("1"), needs) == (
        "shares GPUs with job 2, where memory may run out: job 2 was seen to use 21 GiB of a GPU,"
        " more than it counted with, and job 1 needs 20 of 40"
    )
    site.end("1")
    assert needs.overfull(JobId("2")) is None


def test_a_job_that_grows_where_both_fit_still_is_no_fault() -> None:
    site = site_of("n1")
    site.run(asks("1", 10), asks("2", 20))
    see(site, "1", 20)
    assert needs_of(site).overfull(JobId("2")) is None


def test_no_further_pair_of_that_kind_is_made() -> None:
    site = site_of("n1")
    site.run(asks("1", name="train-1"), asks("2", name="serve-1"))
    see(site, "1", 25)
    site.end("1")
    site.end("2")
    site.run(asks("3", name="serve-2"))

    site.queue(asks("4", name="train-2"))  # the same kind, and states what was not true

    assert site.state("4") is JobState.WAITING
    site.queue(asks("5", name="train-2", user_id=8))  # what a user's jobs do is that user's alone
    assert site.state("5") is JobState.PLACING


def test_a_running_job_of_that_kind_gets_no_partner_either() -> None:
    site = site_of("n1", "n2")
    site.run(asks("1", name="train-1"), asks("2", name="train-2"))
    see(site, "1", 25)
    site.queue(asks("3", name="serve-1"))
    assert site.state("3") is JobState.WAITING
    site.queue(asks("4", 15, name="serve-2"))
    assert site.state("4") is JobState.PLACING
    site.engine.check_invariants()


def test_where_the_gpus_memory_is_not_known_nothing_is_said() -> None:
    site = site_of("n1")
    site.run(asks("1"), asks("2"))
    site.feed(topology("n1", bridges(1), site.now_s))
    see(site, "2", 39)
    assert needs_of(site).overfull(JobId("2")) is None
