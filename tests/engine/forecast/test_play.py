"""One simulation of the queue, with every run time given."""

import random
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.forecast.scenes import running, snapshot, waiting, wish

from roost_engine.cluster.node_sets import NodeSet
from roost_engine.domain.config import Passing
from roost_engine.forecast.play import Entrant, Play, Turn, WaitingGroup
from roost_engine.forecast.snapshot import Snapshot

AT_S = 1_000.0
WHOLE_S = st.integers(1, 1_000).map(float)  # so that sums are exact


def entrants(found: Snapshot, run_s: list[float]) -> list[Entrant]:
    return [
        Entrant(
            job.key,
            number,
            max(job.not_before_s, found.at_s),
            job.since_s,
            job.wish,
            run_s[number],
            job.limit_s,
        )
        for number, job in enumerate(found.waiting)
    ]


def starts(found: Snapshot, rest_s: list[float], run_s: list[float]) -> list[float]:
    """Seconds from now."""
    play = Play(found, rest_s, entrants(found, run_s))
    return [start_s - AT_S for start_s in play.starts_s(AT_S + 1e6)]


def test_jobs_that_fit_start_now_and_the_others_as_jobs_end() -> None:
    found = snapshot(
        free=[2], wishes=[wish(2)], waiting=[waiting(1), waiting(2)], running=[running("r", (0, 2))]
    )
    assert starts(found, [50.0], [100.0, 100.0]) == [0.0, 50.0]


def test_a_smaller_job_passes_one_that_does_not_fit() -> None:
    found = snapshot(
        free=[1],
        wishes=[wish(4), wish(1)],
        waiting=[waiting(1, 0), waiting(2, 1)],
        running=[running("r", (0, 3))],
    )
    assert starts(found, [50.0], [10.0, 100.0]) == [100.0, 0.0]


def test_a_job_that_has_waited_out_its_patience_is_passed_only_by_jobs_that_end_in_time() -> None:
    found = snapshot(
        free=[1],
        wishes=[wish(4), wish(1)],
        waiting=[waiting(1, 0), waiting(2, 1, limit_s=500.0), waiting(3, 1, limit_s=40.0)],
        running=[running("r", (0, 3), limit_end_s=AT_S + 60.0)],
        patience_s=600.0,
    )
    assert starts(found, [50.0], [10.0, 100.0, 20.0]) == [50.0, 60.0, 0.0]


def test_no_job_passes_one_where_none_may() -> None:
    found = snapshot(
        free=[1],
        wishes=[wish(4), wish(1)],
        waiting=[waiting(1, 0), waiting(2, 1, limit_s=1.0)],
        running=[running("r", (0, 3), limit_end_s=AT_S + 60.0)],
        patience_s=600.0,
        passing=Passing.NOBODY,
    )
    assert starts(found, [50.0], [10.0, 1.0]) == [50.0, 60.0]


def test_nodes_without_a_known_end_are_reserved_by_their_free_gpus() -> None:
    found = snapshot(
        free=[1, 3],
        wishes=[wish(4), wish(1)],
        waiting=[waiting(1, 0), waiting(2, 1)],
        running=[running("a", (0, 3)), running("b", (1, 1))],
        patience_s=0.0,
    )
    assert starts(found, [500.0, 50.0], [10.0, 1.0]) == [50.0, 0.0]


def test_a_gang_takes_its_gpus_on_each_of_its_nodes() -> None:
    found = snapshot(
        free=[2, 0, 1],
        wishes=[wish(2, nodes=2)],
        waiting=[waiting(1)],
        running=[running("a", (1, 2)), running("b", (2, 1))],
    )
    assert starts(found, [70.0, 30.0], [10.0]) == [30.0]


def test_a_job_takes_the_fullest_node_and_leaves_an_empty_one_to_a_larger_job() -> None:
    found = snapshot(free=[4, 1], wishes=[wish(1), wish(4)], waiting=[waiting(1, 0), waiting(2, 1)])
    assert starts(found, [], [10.0, 10.0]) == [0.0, 0.0]


def test_a_higher_tier_goes_first() -> None:
    found = snapshot(
        free=[1], wishes=[wish(1), wish(1, tier=-1)], waiting=[waiting(1, 0), waiting(2, 1)]
    )
    assert starts(found, [], [10.0, 20.0]) == [20.0, 0.0]


def test_a_job_with_a_begin_time_starts_then() -> None:
    found = snapshot(free=[1], wishes=[wish(1)], waiting=[waiting(1, not_before_s=AT_S + 30.0)])
    assert starts(found, [], [10.0]) == [30.0]


def test_a_job_that_comes_later_may_go_first() -> None:
    found = snapshot(
        free=[0], wishes=[wish(1)], waiting=[waiting(5)], running=[running("r", (0, 1))]
    )
    coming = [Entrant((1,), 1, AT_S + 5.0, AT_S + 5.0, 0, 100.0, inf)]
    play = Play(found, [50.0], entrants(found, [10.0]), coming)
    assert play.starts_s(AT_S + 1e6) == [AT_S + 150.0]


def test_a_job_that_no_node_holds_never_starts() -> None:
    found = snapshot(free=[2], wishes=[wish(8)], waiting=[waiting(1)])
    assert starts(found, [], [10.0]) == [inf]


TWO_OF_QUOTA = ((0, 2.0),)


def test_a_job_that_a_quota_keeps_waiting_starts_when_a_job_of_the_quota_ends() -> None:
    found = snapshot(
        free=[8],
        wishes=[wish(2, uses=TWO_OF_QUOTA), wish(1)],
        waiting=[waiting(1), waiting(2), waiting(3, 1)],
        running=[running("r", (0, 2), uses=TWO_OF_QUOTA), running("other", (0, 1))],
        quotas=[0.0],
    )
    assert starts(found, [50.0, 10.0], [100.0, 5.0, 5.0]) == [50.0, 150.0, 0.0]


def test_nothing_is_reserved_for_a_job_that_a_quota_keeps_waiting() -> None:
    found = snapshot(
        free=[4],
        wishes=[wish(4, uses=TWO_OF_QUOTA), wish(4)],
        waiting=[waiting(1), waiting(2, 1)],
        running=[running("r", (0, 2), limit_end_s=AT_S + 60.0, uses=TWO_OF_QUOTA)],
        patience_s=0.0,
        quotas=[0.0],
    )
    assert starts(found, [50.0], [10.0, 1e5]) == [1e5, 0.0]


def test_a_quota_that_no_known_job_gives_back_keeps_a_job_for_ever() -> None:
    found = snapshot(
        free=[4], wishes=[wish(1, uses=TWO_OF_QUOTA)], waiting=[waiting(1)], quotas=[1.0]
    )
    assert starts(found, [], [1.0]) == [inf]


def test_a_play_stops_at_its_horizon_and_after_so_many_events() -> None:
    found = snapshot(
        free=[0], wishes=[wish(1)], waiting=[waiting(1), waiting(2)], running=[running("r", (0, 1))]
    )
    assert Play(found, [50.0], entrants(found, [100.0, 1.0])).starts_s(AT_S + 60.0) == [
        AT_S + 50.0,
        inf,
    ]
    play = Play(found, [50.0], entrants(found, [100.0, 1.0]))
    assert play.starts_s(AT_S + 1e6, most_events=1) == [inf, inf]
    assert play.at_s == AT_S + 50.0


def test_a_node_that_comes_to_have_more_free_gpus_than_any_had_is_used() -> None:
    found = snapshot(
        free=[0, 1], wishes=[wish(8)], waiting=[waiting(1)], running=[running("r", (0, 8))]
    )
    assert starts(found, [50.0], [1.0]) == [50.0]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), WHOLE_S, WHOLE_S),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from([0.0, 600.0, inf]),
)
def test_every_job_that_fits_starts_and_no_gpu_is_held_twice(
    jobs: list[tuple[int, float, float]], patience_s: float
) -> None:
    sizes = [(1, 1), (2, 1), (4, 1), (4, 2)]
    found = snapshot(
        free=[4, 4, 4],
        wishes=[wish(size, nodes, among=0b111) for size, nodes in sizes],
        waiting=[
            waiting(number, kind, limit_s=limit_s) for number, (kind, _, limit_s) in enumerate(jobs)
        ],
        patience_s=patience_s,
    )
    run_s = [each for _, each, _ in jobs]
    start_s = starts(found, [], run_s)
    assert max(start_s) < inf
    moments = {*start_s}
    for at_s in moments:
        held = sum(
            sizes[kind][0] * sizes[kind][1]
            for (kind, _, _), begin_s, long_s in zip(jobs, start_s, run_s, strict=True)
            if begin_s <= at_s < begin_s + long_s
        )
        assert held <= 12


class Unhurried(Play):
    """Tries again what an earlier pass has ruled out."""

    def _first_impatient(self) -> Turn | None:
        self._closed.clear()
        return super()._first_impatient()

    def _backfill(self, group: WaitingGroup) -> None:
        group.not_backfilled = -1
        super()._backfill(group)

    def _open_groups(self, freed: NodeSet) -> None:
        self._has_open = True
        for group in self._groups:
            for part in group.parts:
                able = self._nodes.able(part)
                group.is_open |= bool(able & freed) and able.bit_count() >= part.node_count


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("passing", Passing)
def test_what_a_play_does_not_try_again_would_have_changed_nothing(
    passing: Passing, seed: int
) -> None:
    generator = random.Random(seed)
    shapes = [(1, 1), (1, 1), (2, 1), (4, 1), (4, 2)]  # two demands may differ in CPUs alone

    def numbers(count: int) -> list[float]:
        return [float(generator.choice((5, 20, 80, 300))) for _ in range(count)]

    limits_s = numbers(300)
    found = snapshot(
        free=[4, 4, 4],
        wishes=[wish(size, nodes, among=0b111) for size, nodes in shapes],
        waiting=[
            waiting(number, generator.choice((0, 0, 0, 1, 2, 3, 4)), limit_s=limit_s)
            for number, limit_s in enumerate(limits_s)
        ],
        patience_s=60.0,
        passing=passing,
    )
    run_s = [generator.random() * limit_s for limit_s in limits_s]
    coming = [
        Entrant(
            (generator.randrange(300),),
            300 + number,
            AT_S + 20.0 * number,
            AT_S + 20.0 * number,
            generator.randrange(5),
            generator.random() * limit_s,
            limit_s,
        )
        for number, limit_s in enumerate(numbers(240))
    ]
    played = [
        kind(found, [], entrants(found, run_s), coming).starts_s(AT_S + 1e6)
        for kind in (Play, Unhurried)
    ]
    assert played[0] == played[1]
