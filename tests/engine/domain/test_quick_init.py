"""The quicker `__init__` of frozen dataclasses does what that of dataclasses does."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest

from roost_engine.domain.events import JobStarted
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.domain.quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Quick:
    number: int
    name: str = ""


def spec() -> JobSpec:
    shape = Shape(node_count=1, gpus_per_node=2)
    return JobSpec(job_id=JobId("1"), user_id=7, partition="gpu", shapes=(shape,), qos="low")


def test_fields_and_defaults_are_stored() -> None:
    job = spec()
    assert (job.user_id, job.qos, job.priority, job.time_limit_s) == (7, "low", 0, None)
    assert type(job) is JobSpec


def test_it_stays_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        spec().user_id = 8  # type: ignore[misc]


def test_equality_hash_copies_and_replace_are_as_before() -> None:
    job = spec()
    assert spec() == job
    assert hash(spec()) == hash(job)
    assert replace(job, user_id=8) != job
    assert copy.deepcopy(job) == pickle.loads(pickle.dumps(job)) == job
    started = JobStarted(at_s=1.0, job_id=JobId("1"), shares=(), job=job)
    assert pickle.loads(pickle.dumps(started)) == started


def test_missing_and_unknown_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="number"):
        Quick()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        Quick(number=1, colour="red")  # type: ignore[call-arg]


def test_a_class_that_it_would_change_is_refused() -> None:
    with pytest.raises(AssertionError, match="position"):

        @quick_init
        @dataclass(frozen=True, slots=True)
        class ByPosition:
            number: int

    with pytest.raises(AssertionError, match="factory"):

        @quick_init
        @dataclass(frozen=True, slots=True, kw_only=True)
        class Made:
            numbers: list[int] = field(default_factory=list)
