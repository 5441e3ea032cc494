import pytest
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.text.licenses import License, parse_licenses, parse_request


@pytest.mark.parametrize("release", RELEASES)
def test_licenses_are_read(release: str) -> None:
    assert parse_licenses(read(release, "site_licenses.txt")) == {
        "ansys@flex": License(name="ansys@flex", total_count=5),
        "comsol": License(name="comsol", total_count=1),
        "matlab": License(name="matlab", total_count=4),
    }


def test_reserved_licenses_and_those_taken_outside_slurm_are_not_usable() -> None:
    (one,) = parse_licenses(
        "LicenseName=a@b Total=9 Used=1 Free=3 Reserved=2 Remote=yes LastConsumed=7 LastDeficit=3"
    ).values()
    assert one.usable_count == 4
    assert License(name="a", total_count=1, reserved_count=2).usable_count == 0


def test_site_without_licenses_has_none() -> None:
    assert parse_licenses("No licenses configured in Slurm.\n") == {}
    assert parse_licenses("LicenseName=a Total=many\n") == {}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("", {}),
        ("matlab", {"matlab": 1}),
        ("matlab:2,comsol", {"matlab": 2, "comsol": 1}),
        ("ansys@flex:2;matlab:1,matlab:3", {"ansys@flex": 2, "matlab": 4}),
        ("matlab:2|comsol:1", {}),
        ("matlab:x", {}),
    ],
)
def test_request_is_read(text: str, counts: dict[str, int]) -> None:
    assert parse_request(text) == counts
