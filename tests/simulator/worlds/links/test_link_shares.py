import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost_engine.domain.model import JobId
from roost_sim.worlds.links.link_shares import LinkId, LinkShares, Traffic

A, B, C = JobId("a"), JobId("b"), JobId("c")
UP: LinkId = ("rack", "r1")
DOWN: LinkId = ("rack", "r2")
LINKS: tuple[LinkId, ...] = tuple(("node", str(number)) for number in range(5))


def two_links() -> LinkShares:
    return LinkShares({UP: 10.0, DOWN: 4.0})


def test_a_link_with_enough_bandwidth_limits_no_job() -> None:
    links = two_links()
    assert links.add(A, Traffic((UP,), 5.0)) == ()
    assert links.add(B, Traffic((UP,), 5.0)) == ()
    assert (links.share_frac(A), links.share_frac(B)) == (1.0, 1.0)


def test_an_overloaded_link_is_shared_and_given_back() -> None:
    links = two_links()
    links.add(A, Traffic((UP,), 10.0))
    assert links.add(B, Traffic((UP,), 10.0)) == (A,)
    assert (links.share_frac(A), links.share_frac(B)) == (0.5, 0.5)
    assert links.remove(B) == (A,)
    assert links.share_frac(A) == 1.0


def test_a_job_limited_on_another_link_leaves_bandwidth_to_others() -> None:
    links = two_links()
    links.add(A, Traffic((UP,), 10.0))
    links.add(B, Traffic((UP, DOWN), 10.0))
    assert links.share_frac(B) == pytest.approx(0.4)  # DOWN gives it 4
    assert links.share_frac(A) == pytest.approx(0.6)  # so UP has 6 left
    assert links.add(C, Traffic((DOWN,), 10.0)) == (A, B)
    assert [links.share_frac(job) for job in (A, B, C)] == pytest.approx([0.8, 0.2, 0.2])


def test_jobs_without_traffic_never_change() -> None:
    links = two_links()
    links.add(A, Traffic((), 0.0))
    links.add(B, Traffic((UP,), 99.0))
    assert links.share_frac(A) == 1.0
    assert links.remove(B) == ()


def test_refuses_a_second_arrival_and_an_unknown_link() -> None:
    links = two_links()
    links.add(A, Traffic((UP,), 1.0))
    with pytest.raises(ValueError, match="already"):
        links.add(A, Traffic((UP,), 1.0))
    with pytest.raises(KeyError):
        links.add(B, Traffic((("rack", "nowhere"),), 1.0))
    with pytest.raises(KeyError):
        links.remove(B)


traffics = st.builds(
    Traffic,
    st.lists(st.sampled_from(LINKS), max_size=4, unique=True).map(tuple),
    st.floats(0.5, 20.0),
)
changes = st.lists(st.tuples(st.integers(0, 7), traffics), max_size=25)


@given(changes, st.lists(st.floats(5.0, 30.0), min_size=5, max_size=5))
def test_shares_are_max_min_fair_and_all_changes_are_returned(
    steps: list[tuple[int, Traffic]], capacities: list[float]
) -> None:
    capacity = dict(zip(LINKS, capacities, strict=True))
    links, here = LinkShares(capacity), dict[JobId, Traffic]()
    for number, traffic in steps:
        job = JobId(str(number))
        before = {other: links.share_frac(other) for other in here if other != job}
        if job in here:
            del here[job]
            told = links.remove(job)
        else:
            here[job] = traffic
            told = links.add(job, traffic)
        assert set(told) == {o for o, share in before.items() if links.share_frac(o) != share}
        check_max_min(links, here, capacity)


def check_max_min(
    links: LinkShares, here: dict[JobId, Traffic], capacity: dict[LinkId, float]
) -> None:
    share = {job: links.share_frac(job) for job in here}
    on = {link: [job for job in here if link in here[job].links] for link in LINKS}
    used = {link: sum(here[job].bytes_per_s * share[job] for job in on[link]) for link in LINKS}
    for link in LINKS:
        assert used[link] <= capacity[link] * (1 + 1e-6)
    for job, traffic in here.items():
        if share[job] < 1.0:
            # A job with a share below 1 crosses a full link on which no job has a larger one.
            assert any(
                used[link] >= capacity[link] * (1 - 1e-6)
                and share[job] >= max(share[other] for other in on[link]) - 1e-9
                for link in traffic.links
            )
