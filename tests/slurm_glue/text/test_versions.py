import pytest
from tests.slurm_glue.recorded import RELEASES, numbers, read

from roost_slurm.text.squeue import parse_queue
from roost_slurm.text.tres import prefix_of
from roost_slurm.text.versions import (
    TABLE,
    SlurmVersion,
    UnknownVersion,
    parse_version,
    traits_of,
    untried,
)


@pytest.mark.parametrize("release", RELEASES)
def test_recorded_version_is_read(release: str) -> None:
    version = parse_version(read(release, "version.txt"))
    assert str(version).startswith(release)


@pytest.mark.parametrize("text", ["slurm 25.05.3", "slurm-wlm 22.05.8\n", "slurm 26.05.0-rc1"])
def test_both_programs_names_are_known(text: str) -> None:
    assert parse_version(text).year in (22, 25, 26)


@pytest.mark.parametrize("text", ["", "torque 6.1", "slurm twenty"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UnknownVersion):
        parse_version(text)


def test_rows_are_in_order_and_hold_until_the_next() -> None:
    assert [since for since, _ in TABLE] == sorted(since for since, _ in TABLE)
    assert traits_of(SlurmVersion(20, 11)) == TABLE[0][1]
    assert traits_of(SlurmVersion(25, 5, 5)) == traits_of(SlurmVersion(24, 11, 5))
    assert traits_of(SlurmVersion(30, 1)) == TABLE[-1][1]


@pytest.mark.parametrize("release", RELEASES)
def test_table_agrees_with_what_was_recorded(release: str) -> None:
    traits = traits_of(parse_version(read(release, "version.txt")))
    jobs = {job.number: job for job in parse_queue(read(release, "squeue.txt")).jobs}
    plain, exclusive = (jobs[numbers(release)[name]] for name in ("gpus", "exclusive"))
    assert prefix_of(dict(plain.tres)["TresPerJob"]) == traits.gres_prefix
    assert (plain.over_subscribe != exclusive.over_subscribe) is traits.shows_exclusive


@pytest.mark.parametrize("release", [(22, 5, 8), (23, 11), (25, 5, 3), (26, 5, 9)])
def test_a_release_between_those_that_were_tried_is_taken_as_it_is(
    release: tuple[int, ...],
) -> None:
    assert untried(SlurmVersion(*release)) == ""


def test_a_release_beyond_those_that_were_tried_is_told() -> None:
    assert untried(SlurmVersion(20, 11, 9)).startswith("Slurm 20.11.9 is older than 22.05")
    assert untried(SlurmVersion(26, 11, 0)).startswith("Slurm 26.11.0 is newer than 26.05")
