"""config: what the defaults mean, in seconds and numbers of jobs."""

import pytest
from tests.engine.conftest import HarnessFactory

from roost_engine.domain.config import EngineConfig, Passing
from roost_engine.job_record import JobState
from roost_engine.testing.builders import bridges, job, node, placed, released


def test_configuration_files_name_the_two_ways_of_passing() -> None:
    assert [str(passing) for passing in Passing] == ["easy", "nobody"]
    assert EngineConfig().passing is Passing("easy")


@pytest.mark.parametrize(("waited_s", "passes"), [(599.0, True), (600.0, False)])
def test_other_jobs_pass_a_job_for_ten_minutes(
    make_harness: HarnessFactory, waited_s: float, passes: bool
) -> None:
    harness = make_harness([node("a")], bridges())
    harness.run(job("1", gpus=4))
    harness.queue(job("2", gpus=8))
    harness.advance(waited_s)
    assert ("3" in placed(harness.queue(job("3", gpus=4, submit_s=waited_s)))) == passes


def test_slurm_has_ten_seconds_to_start_a_placed_job(make_harness: HarnessFactory) -> None:
    harness = make_harness([node("a")], bridges())
    harness.queue(job("1"))
    harness.advance(9.9)
    assert harness.state("1") is JobState.PLACING
    harness.advance(10.0)
    assert harness.state("1") is JobState.WAITING


def test_the_sixth_refusal_in_a_row_releases_a_job_after_pauses_of_2_to_32_seconds(
    make_harness: HarnessFactory,
) -> None:
    harness = make_harness([node("a")], bridges())
    assert "1" in placed(harness.queue(job("1")))
    for pause_s in (2.0, 4.0, 8.0, 16.0, 32.0):
        assert not released(harness.refuse("1"))
        begun_s = harness.now_s
        assert not placed(harness.advance(begun_s + pause_s - 0.1))
        assert "1" in placed(harness.advance(begun_s + pause_s))
    assert "1" in released(harness.refuse("1"))
