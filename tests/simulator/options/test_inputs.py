"""Inputs: traces without GPU jobs, and bad rows."""

from pathlib import Path

from tests.simulator.program import document, run


def test_a_trace_without_gpu_jobs_is_refused(tmp_path: Path, cluster: Path) -> None:
    path = tmp_path / "cpu.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,10,0\n")
    result = run("run", "--trace", path, "--cluster", cluster)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no GPU job" in result.stderr


def test_bad_rows_are_reported_and_strict_stops_at_them(tmp_path: Path, cluster: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("submit_s,duration_s,num_gpus\n0,10,1\n5,soon,1\n")
    arguments = ("run", "--trace", path, "--cluster", cluster, "--json")
    lenient = run(*arguments)
    assert document(lenient)["jobs"] == 1
    assert "bad.csv:3" in lenient.stderr
    assert run(*arguments, "--strict").exit_code == 2
