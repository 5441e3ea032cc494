"""What earlier runs of a kind of job used of a GPU's memory, and what the next one needs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roostd.ops.state_file import DAMAGED
from roostd.telemetry.gpu_memory import GpuMemoryPeaks, read_peaks

GIB = 1 << 30
ANN, BOB = 1001, 1002


def peaks_of(*peaks_gib: float, name: str = "train-12") -> GpuMemoryPeaks:
    peaks = GpuMemoryPeaks()
    for gib in peaks_gib:
        peaks.note_run(ANN, name, int(gib * GIB))
    return peaks


def test_the_highest_use_of_earlier_runs_counts_with_a_margin() -> None:
    assert peaks_of(10, 12.5, 11).need_bytes(ANN, "train-13") == 15 * GIB
    assert peaks_of(10, 12.6, 11).need_bytes(ANN, "train-13") == 16 * GIB


def test_few_runs_are_not_known() -> None:
    assert peaks_of(10, 12).need_bytes(ANN, "train-13") == 0
    assert GpuMemoryPeaks().need_bytes(ANN, "train") == 0


def test_a_statement_below_what_earlier_runs_used_is_not_believed() -> None:
    peaks = peaks_of(10, 12.5, 11)
    assert peaks.need_bytes(ANN, "train-13", 5 * GIB) == 13 * GIB
    assert peaks.need_bytes(ANN, "train-13", 14 * GIB) == 14 * GIB  # takes the margin's place
    assert peaks.need_bytes(BOB, "train-13", 5 * GIB) == 5 * GIB
    assert peaks_of(10, 12.5).need_bytes(ANN, "train-13", 5 * GIB) == 5 * GIB  # too few to be sure


@given(
    peaks_gib=st.lists(st.floats(0, 80), max_size=14), stated_gib=st.sampled_from([0, 1, 20, 79])
)
def test_a_job_never_counts_with_less_than_it_states_or_has_used(
    peaks_gib: list[float], stated_gib: int
) -> None:
    needed = peaks_of(*peaks_gib).need_bytes(ANN, "train-1", stated_gib * GIB)
    assert needed >= stated_gib * GIB
    if len(peaks_gib) < 3:
        assert needed == stated_gib * GIB
    else:
        used = max(peaks_gib[-10:]) * GIB
        assert needed >= int(used)
        if 0 < used <= stated_gib * GIB:
            assert needed == stated_gib * GIB


def test_kinds_are_of_one_user_and_name() -> None:
    peaks = peaks_of(10, 10, 10)
    assert peaks.need_bytes(BOB, "train-12") == 0
    assert peaks.need_bytes(ANN, "test-12") == 0


def test_a_high_run_is_forgotten_after_ten_others() -> None:
    assert peaks_of(70, *[10] * 9).need_bytes(ANN, "train-1") == 84 * GIB
    assert peaks_of(70, *[10] * 10).need_bytes(ANN, "train-1") == 12 * GIB


def test_what_was_written_is_read_again() -> None:
    again = read_peaks(peaks_of(10, 12, 11).text())
    assert again.need_bytes(ANN, "train-7") == 15 * GIB
    assert again.text() == peaks_of(10, 12, 11).text()
    assert again.change_count == 0


def test_one_run_that_outgrew_what_it_counted_with_is_believed_for_ten_runs() -> None:
    peaks = peaks_of(10)
    peaks.note_outgrown(ANN, "train-12", 30 * GIB)
    peaks.note_outgrown(ANN, "train-12", 25 * GIB)
    assert peaks.need_bytes(ANN, "train-13", 20 * GIB) == 30 * GIB
    assert peaks.need_bytes(ANN, "train-13", 35 * GIB) == 35 * GIB
    assert peaks.need_bytes(ANN, "train-13") == 0  # without a statement, one run is too few
    assert peaks.need_bytes(BOB, "train-13", 20 * GIB) == 20 * GIB
    again = read_peaks(peaks.text())
    assert again.need_bytes(ANN, "train-13", 20 * GIB) == 30 * GIB
    for _ in range(9):
        again.note_run(ANN, "train-14", 10 * GIB)
    assert again.need_bytes(ANN, "train-13") == 36 * GIB
    again.note_run(ANN, "train-15", 10 * GIB)
    assert again.need_bytes(ANN, "train-13", 11 * GIB) == 11 * GIB


def test_a_file_of_an_earlier_version_is_read() -> None:
    older = json.loads(peaks_of(10, 12, 11).text())
    del older["outgrown"]
    assert read_peaks(json.dumps(older)).need_bytes(ANN, "train-7") == 15 * GIB


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        json.dumps({"schema": "other", "kinds": {}}),
        json.dumps({"schema": "roost.gpu-memory/1", "kinds": []}),
        json.dumps({"schema": "roost.gpu-memory/1", "kinds": {"x y": [1]}}),
        json.dumps({"schema": "roost.gpu-memory/1", "kinds": {"1 y": [-1]}}),
        json.dumps({"schema": "roost.gpu-memory/1", "kinds": {"1 y": [1.5]}}),
        json.dumps({"schema": "roost.gpu-memory/1", "kinds": {"1 y": [True]}}),
        json.dumps({"schema": "roost.gpu-memory/1", "kinds": {"1 y": [1 << 60]}}),
        json.dumps({"schema": "roost.gpu-memory/1", "kinds": {}, "outgrown": {"1 y": [1]}}),
        json.dumps({"schema": "roost.gpu-memory/1", "kinds": {}, "outgrown": {"1 y": [1, 0]}}),
        json.dumps({"schema": "roost.gpu-memory/1", "kinds": {}, "outgrown": {"1 y": [-1, 1]}}),
    ],
)
def test_a_damaged_file_is_refused(content: str) -> None:
    with pytest.raises(DAMAGED):
        read_peaks(content)
