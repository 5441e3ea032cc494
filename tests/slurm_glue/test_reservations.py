import pytest
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.reservations import Reservation, parse_reservations


def recorded(release: str) -> dict[str, Reservation]:
    return {one.name: one for one in parse_reservations(read(release, "site_reservations.txt"))}


@pytest.mark.parametrize("release", RELEASES)
def test_reservations_are_read(release: str) -> None:
    found = recorded(release)
    assert found["maint"] == Reservation(
        name="maint",
        start_epoch_s=1_893_456_000.0,
        end_epoch_s=1_893_463_200.0,
        nodes=("n1", "n2"),
        flags=frozenset({"MAINT", "IGNORE_JOBS", "SPEC_NODES"}),
        users=frozenset({"root"}),
    )
    assert found["class"].users == {"mail", "news"}
    assert "FLEX" in found["class"].flags
    assert found["weekly"].accounts == {"-bio"}
    assert "MAGNETIC" in found["magnet"].flags
    assert {name for name, one in found.items() if one.floats} == {"float"}


@pytest.mark.parametrize("release", RELEASES)
def test_parts_of_nodes_and_licenses_are_told_from_whole_nodes(release: str) -> None:
    found = recorded(release)
    assert {name for name, one in found.items() if one.is_partial} == {"cores"}
    assert (found["licenses"].nodes, found["licenses"].license_counts) == ((), (("matlab", 2),))


def test_lines_that_are_no_reservation_are_left_out() -> None:
    assert parse_reservations("No reservations in the system\n") == ()
    times = "StartTime=2030-01-01T00:00:00 EndTime=2030-01-01T00:00:00"
    assert parse_reservations(f"ReservationName=a {times} Nodes=n[1\n") == ()
    assert parse_reservations("ReservationName=a StartTime=N/A EndTime=N/A Nodes=n1\n") == ()
    (one,) = parse_reservations(f"ReservationName=a {times} Nodes=n1 Comment=Nodes=n9 Users=x\n")
    assert one.nodes == ("n1",)
