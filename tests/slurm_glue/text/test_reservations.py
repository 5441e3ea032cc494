import pytest
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.text.reservations import Reservation, parse_reservations


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
        cpu_count=32,
    )
    assert found["class"].users == {"mail", "news"}
    assert "FLEX" in found["class"].flags
    assert found["weekly"].accounts == {"-bio"}
    assert "MAGNETIC" in found["magnet"].flags
    assert {name for name, one in found.items() if one.floats} == {"float"}


@pytest.mark.parametrize("release", RELEASES)
def test_parts_of_nodes_and_licenses_are_told_from_whole_nodes(release: str) -> None:
    found = recorded(release)
    assert {name: one.cores for name, one in found.items() if one.cores} == {"cores": {"n2": 4}}
    assert found["cores"].cpu_count == 4
    assert found["licenses"].nodes == ()


def test_cores_of_several_nodes_are_read() -> None:
    """As 22.05.8 printed it for CoreCnt=8,6."""
    (one,) = parse_reservations(
        "ReservationName=two StartTime=2026-11-22T22:46:39 EndTime=2026-11-22T23:46:39"
        " Duration=01:00:00 Nodes=n[1-2] NodeCnt=2 CoreCnt=14 Features=(null) PartitionName=main"
        " Flags=SPEC_NODES   NodeName=n1 CoreIDs=0-7   NodeName=n2 CoreIDs=0-5 TRES=cpu=14"
        " Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE"
    )
    assert (one.cores, one.cpu_count) == ({"n1": 8, "n2": 6}, 14)


def test_gpus_of_a_reservation_are_counted() -> None:
    """As 24.11.5 printed it for `tres=gres/gpu=3`, in a partition with DefCpuPerGPU=2."""
    (one,) = parse_reservations(
        "ReservationName=r StartTime=2026-11-23T17:04:18 EndTime=2026-11-23T18:04:18"
        " Duration=01:00:00 Nodes=n1 NodeCnt=1 CoreCnt=6 Features=(null) PartitionName=def"
        " Flags=SPEC_NODES   NodeName=n1 CoreIDs=0-2,8-10 TRES=cpu=6,gres/gpu=3 Users=root"
        " Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)"
        " MaxStartDelay=(null)"
    )
    assert (one.gpu_count, one.cpu_count, one.cores) == (3, 6, {"n1": 6})


def test_lines_that_are_no_reservation_are_left_out() -> None:
    assert parse_reservations("No reservations in the system\n") == ()
    times = "StartTime=2030-01-01T00:00:00 EndTime=2030-01-01T00:00:00"
    assert parse_reservations(f"ReservationName=a {times} Nodes=n[1\n") == ()
    assert parse_reservations("ReservationName=a StartTime=N/A EndTime=N/A Nodes=n1\n") == ()
    (one,) = parse_reservations(f"ReservationName=a {times} Nodes=n1 Comment=Nodes=n9 Users=x\n")
    assert one.nodes == ("n1",)
