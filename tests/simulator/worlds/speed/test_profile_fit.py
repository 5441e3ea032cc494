"""Fits of speed profiles, and their errors."""

import subprocess
import sys
from math import log2
from pathlib import Path

import numpy as np
import pytest

from roost_sim.worlds.speed.fitted_profiles import PROFILES
from roost_sim.worlds.speed.profile_fit import (
    POLLUX,
    Measured,
    errors,
    family_of,
    fit_profile,
    predicted_s,
    read_pollux,
)
from roost_sim.worlds.speed.profiles import Profile

REPOSITORY = Path(__file__).parents[4]


PLAIN = Profile(
    name="a/1@x",
    family="a",
    source="by hand",
    compute_s=2.0,
    local=0.1,
    spread=0.5,
    spread_log=0.25,
    pair_log=0.3,
)


def rows_of(profile: Profile) -> list[Measured]:
    places = [(1, n, n) for n in (1, 2, 4, 8)]
    places += [(k, k * m, m) for k in range(2, 17) for m in (1, 2, 4)]
    unknown_s = 0.0
    rows = [Measured("a", "1", k, n, m, unknown_s) for k, n, m in places]
    return [
        Measured("a", "1", r.node_count, r.gpu_count, r.fullest_gpu_count, predicted_s(profile, r))
        for r in rows
    ]


def test_fit_finds_the_terms_that_made_the_rows() -> None:
    rows = rows_of(PLAIN)
    assert any(row.is_held_out for row in rows)
    found = fit_profile(rows, POLLUX, "t4")
    for term in ("compute_s", "local", "spread", "spread_log", "pair_log"):
        assert getattr(found, term) == pytest.approx(getattr(PLAIN, term), rel=1e-3)


def test_error_is_relative_to_what_was_measured() -> None:
    profile = Profile(
        name="a/1@t4", family="a", source="", compute_s=1.0, local=0.5, spread=0.0, spread_log=0.0
    )
    rows = [
        Measured("a", "1", 1, 2, 2, 1.5),
        Measured("a", "1", 1, 4, 4, 4.0),
        Measured("b", "1", 1, 4, 4, 9.0),
    ]
    family, overall = errors([profile], rows)
    assert (family.family, overall.family, overall.row_count) == ("a", "all", 2)
    assert overall.mean_frac == pytest.approx((0.0 + 0.5) / 2)


def test_held_out_rows_do_not_sway_the_fit() -> None:
    rows = rows_of(PLAIN)
    spoilt = [
        Measured("a", "1", r.node_count, r.gpu_count, r.fullest_gpu_count, 999.0)
        if r.is_held_out
        else r
        for r in rows
    ]
    assert fit_profile(spoilt, POLLUX, "t4") == fit_profile(rows, POLLUX, "t4")


@pytest.mark.parametrize(
    ("model", "family"),
    [("ResNet-18", "resnet18"), ("cifar10", "resnet18"), ("imagenet", "resnet50"), ("LM", "lm")],
)
def test_tables_names_for_one_model_are_one_family(model: str, family: str) -> None:
    assert family_of(model) == family


def run_fit(*arguments: str) -> str:
    command = [sys.executable, str(REPOSITORY / "benchmarks" / "fit_profiles.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


@pytest.mark.data
def test_error_on_rows_that_no_fit_has_seen(data_folder: Path) -> None:
    table = data_folder / "throughput" / "pollux_aws_t4_steptime.csv.gz"
    rows = [row for row in read_pollux(table) if row.is_held_out]
    found = {entry.family: entry for entry in errors(PROFILES, rows)}
    assert found["all"].row_count > 700
    assert found["all"].mean_frac < 0.06
    assert found["all"].p90_frac < 0.13
    assert max(entry.mean_frac for entry in found.values()) < 0.10


@pytest.mark.data
def test_error_on_larger_placements_than_any_fitted(data_folder: Path) -> None:
    table = data_folder / "throughput" / "pollux_aws_t4_steptime.csv.gz"
    (overall,) = (
        entry
        for entry in errors(PROFILES, read_pollux(table, "scalability"))
        if entry.family == "all"
    )
    assert overall.row_count >= 700
    assert overall.mean_frac < 0.10


@pytest.mark.data
def test_numbers_in_the_code_are_what_the_fit_prints(data_folder: Path) -> None:
    printed: dict[str, tuple[Profile, ...]] = {}
    exec(run_fit("--data", str(data_folder / "throughput")), printed)
    assert [p.name for p in printed["PROFILES"]] == [p.name for p in PROFILES]
    for again, shipped in zip(printed["PROFILES"], PROFILES, strict=True):
        for term in ("local", "spread", "spread_log", "pair_log"):
            assert getattr(again, term) == pytest.approx(getattr(shipped, term), rel=1e-2, abs=1e-3)


def test_doublings_are_what_the_terms_count() -> None:
    steps = [PLAIN.spread_overhead(n, 4, n // 4) for n in (4, 8, 16)]
    assert np.diff(steps) == pytest.approx([PLAIN.spread_log * log2(2)] * 2)
