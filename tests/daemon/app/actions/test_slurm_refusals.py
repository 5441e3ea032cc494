"""What Slurm refuses is logged and counted, and ends nothing."""

import pytest
from prometheus_client import CollectorRegistry

from roost_engine.domain.errors import SlurmError, SlurmTimeout
from roost_engine.domain.model import JobId
from roostd.app.actions.slurm_refusals import logged
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
