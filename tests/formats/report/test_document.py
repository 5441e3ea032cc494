"""Schema roost.report/1."""

import json

from tests.formats.report.past import past_job

from roost_formats.report.document import report_document
from roost_formats.report.tally import tally


def test_it_is_json_without_nan_and_null_for_what_no_job_shows() -> None:
    found = report_document(tally([past_job()]).figures(0.0, 604_800.0))
    json.dumps(found, allow_nan=False)
    assert found["enforced"] is None
    assert found["watched"] is not None
    assert found["watched"]["running_gpu_hours"] == {"value": None, "low": None, "high": None}
    assert found["partitions"][0]["name"] == "main"
    assert found["until_epoch_s"] == 604_800.0
