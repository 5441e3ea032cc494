"""`roostctl eta`: a sentence for one job, a table for all, and what makes a forecast doubtful."""

import json

import pytest
from tests.cli.conftest import Run

from roost_proto.v1 import operator_pb2 as pb
from roostctl.commands.eta import about
from roostctl.testing import FakeOperator


@pytest.fixture
def forecast(operator: FakeOperator) -> FakeOperator:
    """A job that starts soon, one of which little is known, and one that runs."""
    time = pb.ExpectedTime
    operator.etas.CopyFrom(
        pb.GetEtaResponse(
            age_s=12.0,
            play_count=20,
            interval_frac=0.8,
            etas=[
                pb.Eta(
                    job_id="4713",
                    state=pb.JOB_STATE_WAITING,
                    gpu_count=8,
                    start=time(low_s=240.0, median_s=720.0, high_s=2_100.0),
                    end=time(low_s=2_700.0, median_s=9_000.0, high_s=200_000.0),
                ),
                pb.Eta(
                    job_id="4714",
                    state=pb.JOB_STATE_WAITING,
                    gpu_count=16,
                    start=time(low_s=3_000.0, median_s=90_000.0),
                    end=time(low_s=7_000.0),
                ),
                pb.Eta(
                    job_id="4711",
                    state=pb.JOB_STATE_RUNNING,
                    gpu_count=2,
                    end=time(low_s=20.0, median_s=80.0, high_s=300.0),
                ),
            ],
        )
    )
    return operator


def test_one_job_is_a_sentence(forecast: FakeOperator, run: Run) -> None:
    result = run("eta", "4713")
    assert result.exit_code == 0
    assert result.stdout == (
        "Job 4713 (waiting) starts in about 12 min (80%: 4 to 35 min), "
        "ends in about 2.5 h (80%: 45 min to 2.3 d).\n"
    )


def test_a_job_that_runs_has_only_an_end(forecast: FakeOperator, run: Run) -> None:
    assert run("eta", "4711").stdout == (
        "Job 4711 (running) ends in about 80 s (80%: 20 s to 5 min).\n"
    )


def test_what_is_not_known_is_said(forecast: FakeOperator, run: Run) -> None:
    assert run("eta", "4714").stdout == (
        "Job 4714 (waiting) starts in about 25 h (80%: 50 min or later), "
        "ends in 1.9 h at the earliest, how late is not known.\n"
    )


def test_all_jobs_are_a_table(forecast: FakeOperator, run: Run) -> None:
    del forecast.etas.etas[2]
    forecast.etas.missing_count = 1
    lines = run("eta").stdout.splitlines()
    assert lines[0].split("  ")[0] == "JOB"
    assert " ".join(lines[1].split()) == "4713 8 12 min 4 to 35 min 2.5 h 45 min to 2.3 d"
    assert " ".join(lines[2].split()) == "4714 16 25 h 50 min or later - 1.9 h or later"
    assert lines[3] == (
        "2 waiting jobs; 80% of times lie between their bounds; the queue was played 20 times, "
        "12 s ago. 1 job came later."
    )


def test_an_empty_queue_has_no_table(run: Run) -> None:
    assert run("eta").stdout.startswith("0 waiting jobs")


def test_a_stale_forecast_says_so(forecast: FakeOperator, run: Run) -> None:
    forecast.etas.age_s, forecast.etas.fault = 300.0, "no answer in 30 s"
    stale = "Stale: this is 5 m 00 s old, because no answer in 30 s."
    assert run("eta", "4713").stdout.splitlines()[-1] == stale
    assert run("eta").stdout.splitlines()[-1] == stale


def test_json_has_seconds_and_null_for_what_is_not_known(forecast: FakeOperator, run: Run) -> None:
    document = json.loads(run("eta", "4714", "--json").stdout)
    assert document["schema"] == "roost.eta/1"
    assert document["etas"] == [
        {
            "job_id": "4714",
            "state": "waiting",
            "gpu_count": 16,
            "start": {"low_s": 3_000.0, "median_s": 90_000.0, "high_s": None},
            "end": {"low_s": 7_000.0, "median_s": None, "high_s": None},
        }
    ]


def test_an_unknown_job_fails(forecast: FakeOperator, run: Run) -> None:
    result = run("eta", "9")
    assert (result.exit_code, result.stderr) == (1, "roostctl: no job '9'\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "later"),
        (-1.0, "0 s"),
        (7.4, "7 s"),
        (44.0, "40 s"),
        (91.0, "2 min"),
        (5_399.0, "90 min"),
        (5_400.0, "1.5 h"),
        (100_000.0, "28 h"),
        (172_800.0, "2.0 d"),
        (1_000_000.0, "12 d"),
    ],
)
def test_a_forecast_has_two_digits(seconds: float | None, text: str) -> None:
    assert about(seconds) == text
