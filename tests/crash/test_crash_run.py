"""A few kills of the crash test, on a real Slurm."""

import pytest
from tests.conftest import missing
from tests.crash.crash_run import FAIL_POINTS, crash
from tests.crash.crash_run import main as crash_test

from roost_slurm.testing.availability import LocalSlurmUnavailable


@pytest.mark.slurm
@pytest.mark.nvml
@pytest.mark.timeout(400)
def test_a_few_kills_break_no_promise() -> None:
    try:
        report = crash(kill_count=6, seed=3, seconds=10.0, say=lambda text: None)
    except LocalSlurmUnavailable as error:
        missing(str(error))
    assert report.problems == []
    assert report.kills.total() > 0
    slurms_own = report.launch_lost_count + report.end_lost_count + report.without_gpus_count
    assert report.completed_count + slurms_own == report.job_count > 0


def test_every_fail_point_that_this_cluster_reaches_is_tried() -> None:
    assert FAIL_POINTS == ("after_decide", "after_journal", "after_set", "after_pin", "after_renew")


def test_wrong_usage_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        crash_test(["--kills", "many"])
    assert left.value.code == 2
    assert "--kills" in capsys.readouterr().err
