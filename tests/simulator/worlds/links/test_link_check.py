"""Link check: the rows that are met, and those that are known not to be."""

import pytest

from roost_sim.worlds.links.link_check import Check, checks

NOT_MET = {
    "DGX-1 P100, GPUs 0 to 6",
    "DGX-1V, three with 2, 2 and no lanes",
    "HGX H200, 8 GPUs",
    "H100 PCIe, bridged pair",
    "RTX 2080 Ti, bridged pair",
}


def test_the_rows_that_are_not_met_are_those_of_the_page() -> None:
    assert {check.what for check in checks() if not check.is_met} == NOT_MET


def test_every_row_has_a_source_and_a_name_of_its_own() -> None:
    found = checks()
    assert all(check.source for check in found)
    assert len({check.what for check in found}) == len(found)


def test_within_a_fifth_is_met() -> None:
    assert Check("a", 100.0, 120.0, "by hand").is_met
    assert not Check("a", 100.0, 79.0, "by hand").is_met
    assert Check("a", 100.0, 79.0, "by hand").error_frac == pytest.approx(-0.21)


def test_orders_of_one_machine_are_as_measured() -> None:
    rows = [check for check in checks() if check.what.startswith("DGX-1V")]
    rows = [check for check in rows if check.is_met]
    by_model = sorted(rows, key=lambda check: check.predicted_bytes_per_s)
    assert by_model == sorted(rows, key=lambda check: check.measured_bytes_per_s)
