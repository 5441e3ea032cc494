"""Which waiting jobs plain Slurm could have started, and since when."""

from collections import Counter
from collections.abc import Sequence
from math import inf

import pytest

from roost_engine.domain.model import JobId
from roostd.slurm.first_starts import Answer, AskedJob, FirstStarts

N1, N2 = frozenset({"n1"}), frozenset({"n2"})
LIMIT_S = 600.0


def asked(
    name: str, *, question: str = "", limit_s: float | None = LIMIT_S, is_deferred: bool = False
) -> AskedJob:
    return AskedJob(
        job_id=JobId(name),
        question=("sbatch", question or name),
        time_limit_s=limit_s,
        is_deferred=is_deferred,
    )


def due(starts: FirstStarts, jobs: Sequence[AskedJob]) -> dict[str, float]:
    return dict(starts.due(jobs, 30.0))


@pytest.fixture
def starts() -> FirstStarts:
    return FirstStarts()


def tell(
    starts: FirstStarts,
    jobs: Sequence[AskedJob],
    at_s: float,
    answers: dict[str, tuple[float, frozenset[str]]],
) -> None:
    """Answer the questions of jobs by name with a start, seconds from now, and nodes."""
    for name, (in_s, nodes) in answers.items():
        starts.note(("sbatch", name), Answer(at_s, at_s + in_s, nodes))
    starts.judge(jobs, at_s)


def test_a_job_is_due_when_slurm_could_start_it_twice_so_far_apart(starts: FirstStarts) -> None:
    jobs = [asked("1")]
    tell(starts, jobs, 100.0, {"1": (1.0, N1)})
    starts.judge(jobs, 140.0)  # the answer is old by then
    assert due(starts, jobs) == {}
    tell(starts, jobs, 129.0, {"1": (0.0, N1)})
    assert due(starts, jobs) == {}
    tell(starts, jobs, 130.0, {"1": (0.0, N1)})
    assert due(starts, jobs) == {"1": 100.0}
    assert starts.startable_count == 1


def test_another_answer_between_begins_again(starts: FirstStarts) -> None:
    jobs = [asked("1")]
    tell(starts, jobs, 100.0, {"1": (0.0, N1)})
    tell(starts, jobs, 120.0, {"1": (50.0, N1)})
    assert starts.startable_count == 0
    tell(starts, jobs, 130.0, {"1": (0.0, N1)})
    assert due(starts, jobs) == {}
    assert starts.first_s(JobId("1")) == 100.0  # the wait beyond Slurm's counts from there


def test_jobs_that_ask_for_the_same_share_an_answer(starts: FirstStarts) -> None:
    jobs = [asked("1", question="q"), asked("2", question="q")]
    tell(starts, jobs, 100.0, {"q": (0.0, N1)})
    assert starts.startable_count == 2


@pytest.mark.parametrize(
    ("ahead", "is_startable"),
    [
        ((LIMIT_S - 1, N1), False),  # the job would run beyond the start of the one ahead
        ((LIMIT_S, N1), True),
        ((LIMIT_S - 1, N2), True),  # on other nodes
        ((inf, frozenset[str]()), True),  # Slurm would not take the job ahead
        ((0.0, N1), True),  # it could start as well: it is due first
    ],
)
def test_a_job_ahead_reserves_its_nodes(
    starts: FirstStarts, ahead: tuple[float, frozenset[str]], is_startable: bool
) -> None:
    jobs = [asked("1"), asked("2")]
    tell(starts, jobs, 100.0, {"1": ahead, "2": (0.0, N1)})
    assert (starts.first_s(JobId("2")) is not None) == is_startable


def test_a_job_without_a_time_limit_never_ends_before_one_ahead(starts: FirstStarts) -> None:
    jobs = [asked("1"), asked("2", limit_s=None)]
    tell(starts, jobs, 100.0, {"1": (1e9, N1), "2": (0.0, N1)})
    assert starts.startable_count == 0


def test_behind_a_job_without_an_answer_nothing_is_known(starts: FirstStarts) -> None:
    jobs = [asked("1"), asked("2")]
    tell(starts, jobs, 100.0, {"2": (0.0, N2)})
    assert starts.startable_count == 0


def test_a_job_that_a_gate_defers_is_not_counted(starts: FirstStarts) -> None:
    tell(starts, [asked("1")], 100.0, {"1": (0.0, N1)})
    tell(starts, [asked("1", is_deferred=True)], 130.0, {"1": (0.0, N1)})
    assert due(starts, [asked("1")]) == {}
    assert starts.first_s(JobId("1")) is None


def test_the_longest_unasked_question_is_next_and_those_of_startable_jobs_sooner(
    starts: FirstStarts,
) -> None:
    jobs = [asked("1"), asked("2"), asked("3")]
    assert starts.next_question([], 100.0) is None
    for at_s, name, in_s in ((100.0, "1", 9.0), (101.0, "2", 9.0), (104.0, "3", 0.0)):
        assert starts.next_question(jobs, at_s) == ("sbatch", name)
        tell(starts, jobs, at_s, {name: (in_s, frozenset({name}))})
    assert starts.next_question(jobs, 105.0) == ("sbatch", "1")
    assert starts.next_question(jobs, 108.0) == ("sbatch", "3")  # 3 * 4 s against 8 s


def test_every_question_is_asked_in_turn_and_the_first_ones_more_often(
    starts: FirstStarts,
) -> None:
    jobs = [asked(str(number)) for number in range(100)]
    names = list[str]()
    for at_s in range(100, 500):
        question = starts.next_question(jobs, float(at_s))
        assert question is not None
        names.append(question[1])
        starts.note(question, Answer(float(at_s)))
    assert set(names[:200]) == {str(number) for number in range(100)}
    times = Counter(names[200:])
    assert {times[str(number)] for number in range(32)} == {3, 4}
    assert {times[str(number)] for number in range(32, 100)} == {1, 2}


def test_a_job_far_behind_that_slurm_could_start_is_due_too(starts: FirstStarts) -> None:
    jobs = [asked(str(number)) for number in range(100)]
    for at_s in range(100, 500):
        question = starts.next_question(jobs, float(at_s))
        assert question is not None
        in_s = 0.0 if question[1] == "99" else inf
        starts.note(question, Answer(float(at_s), at_s + in_s, N1))
        starts.judge(jobs, float(at_s))
    assert due(starts, jobs).keys() == {"99"}


def test_what_does_not_wait_any_more_is_forgotten(starts: FirstStarts) -> None:
    jobs = [asked("1"), asked("2")]
    tell(starts, jobs, 100.0, {"1": (0.0, N1), "2": (0.0, N2)})
    starts.keep(frozenset({JobId("2")}), jobs[1:])
    assert (starts.startable_count, starts.first_s(JobId("1"))) == (1, None)
    assert starts.next_question(jobs, 101.0) == ("sbatch", "1")  # its answer is gone
