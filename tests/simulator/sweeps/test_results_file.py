from dataclasses import replace
from pathlib import Path

import pytest
from tests.simulator.sweeps.cases import done, jobs, sweep, template

from roost_sim.sweeps.results_file import (
    ResultsFileError,
    appending,
    facts_of,
    read_results,
    unfinished,
)
from roost_sim.sweeps.sweep import Case, Done, Sweep
from roost_sim.worlds.world_spec import Speed, WorldSpec

FACTS = facts_of(sweep())
RUNS = [done("fifo", 0, 0.9, avg_jct_s=0.1 + 0.2, preemptions=3, comm_share=None), done("sjf", 1)]


def write(path: Path, *runs: Done) -> None:
    with appending(path, FACTS) as writer:
        for run in runs:
            writer.write(run)


def test_what_is_written_is_read_to_the_last_digit(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert read_results(path, FACTS) == []
    write(path, RUNS[0])
    write(path, RUNS[1])
    found = read_results(path, FACTS)
    assert found == RUNS
    assert repr(found) == repr(RUNS)


def test_a_line_that_a_kill_cut_short_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    write(path, *RUNS)
    path.write_bytes(path.read_bytes()[:-5])
    assert read_results(path, FACTS) == RUNS[:1]
    write(path, RUNS[1])
    assert read_results(path, FACTS) == RUNS


def test_only_what_is_missing_is_unfinished() -> None:
    cases = [Case("fifo", 0, 0.9), Case("fifo", 0, None), Case("sjf", 1, None)]
    assert unfinished(cases, RUNS) == [Case("fifo", 0, None)]


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (Sweep(template=template(jobs(39))), "jobs, trace"),
        (sweep(window_jobs=10), "window_jobs"),
        (Sweep(template=replace(template(), world=WorldSpec(speed=Speed.TRACE))), "world"),
        (Sweep(template=replace(template(), start_delay_s=1.0)), "start_delay_s"),
    ],
    ids=["trace", "window", "world", "delay"],
)
def test_runs_of_something_else_are_refused(tmp_path: Path, other: Sweep, named: str) -> None:
    path = tmp_path / "runs.jsonl"
    write(path, *RUNS)
    with pytest.raises(ResultsFileError, match=rf"runs.jsonl:1: holds runs of another {named};"):
        read_results(path, facts_of(other))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [("{}", "is no run .case: Field required"), ("[1", "is no run"), ('{"case": 1}', "case")],
)
def test_a_line_that_is_no_run_is_named(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "runs.jsonl"
    write(path, RUNS[0])
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.raises(ResultsFileError, match=f"runs.jsonl:3: .*{complaint}"):
        read_results(path, FACTS)


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,1,1\n")
    with pytest.raises(ResultsFileError, match=r"jobs.csv:1: .*name another file"):
        read_results(path, FACTS)


@pytest.mark.parametrize("text", ["a note of mine", "{}", '{"format":1'])
def test_a_file_of_one_line_without_its_end_is_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes"
    path.write_text(text)
    with pytest.raises(ResultsFileError, match=r"notes:1: is no results file; name another file"):
        read_results(path, FACTS)
    assert path.read_text() == text


def test_a_first_line_that_a_kill_cut_short_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    write(path)
    path.write_bytes(path.read_bytes()[:-5])
    assert read_results(path, FACTS) == []
    write(path, RUNS[1])
    assert read_results(path, FACTS) == RUNS[1:]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "no" / "runs.jsonl"
    with pytest.raises(ResultsFileError, match=r"runs.jsonl: No such file"), appending(path, FACTS):
        pass
