"""What Slurm refuses is logged and counted, and ends nothing."""

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from roost_engine.domain.errors import SlurmError, SlurmRefused, SlurmTimeout
from roost_engine.domain.model import JobId
from roostd.app.actions.slurm_refusals import RepeatedRefusals, logged
from roostd.ops.metrics import Metrics
from roostd.slurm.port import JobNotWaiting


@pytest.mark.parametrize(
    ("error", "count"),
    [(SlurmTimeout(("scontrol",), 10.0), 1), (JobNotWaiting(JobId("1"), "RUNNING"), 0)],
)
def test_a_refusal_is_counted_unless_the_job_no_longer_waits(error: SlurmError, count: int) -> None:
    metrics = Metrics(CollectorRegistry())
    with logged(metrics, "renew"):
        raise error
    labels = {"operation": "renew"}
    counted = metrics.registry.get_sample_value("roost_slurm_failures_total", labels) or 0
    assert counted == count


def test_any_other_error_passes() -> None:
    with pytest.raises(ValueError, match="a bug"), logged(Metrics(CollectorRegistry()), "renew"):
        raise ValueError("a bug")


def test_a_refusal_that_is_repeated_is_logged_once_for_each_cause_until_it_is_over() -> None:
    metrics = Metrics(CollectorRegistry())
    refusals = RepeatedRefusals(metrics, "renew")
    gone = "slurm_update error: Unable to contact slurm controller"

    def renew(error: SlurmError | None) -> list[str]:
        with capture_logs() as logs, refusals.logged():
            if error is not None:
                raise error
        return [f"{one['event']} {one.get('failed_count', '')}".strip() for one in logs]

    assert renew(None) == []
    assert renew(SlurmRefused(("scontrol", "update", "jobid=1,2"), 1, gone)) == ["slurm_failed"]
    assert renew(SlurmRefused(("scontrol", "update", "jobid=3"), 1, gone)) == []
    assert renew(SlurmTimeout(("scontrol", "update", "jobid=3"), 10.0)) == ["slurm_failed"]
    assert renew(SlurmRefused(("scontrol", "update", "jobid=4"), 1, gone)) == []
    assert renew(None) == ["slurm_works_again 4"]
    assert renew(SlurmRefused(("scontrol", "update", "jobid=4"), 1, gone)) == ["slurm_failed"]
    labels = {"operation": "renew"}
    assert metrics.registry.get_sample_value("roost_slurm_failures_total", labels) == 5
