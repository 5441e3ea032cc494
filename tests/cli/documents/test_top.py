"""Schema roost.top/1."""

from roostctl.documents.top import top_document
from roostctl.testing import build_job, build_node, build_status


def test_it_has_the_three_answers() -> None:
    found = top_document(build_status(), [build_node("n1")], [build_job("1")])
    assert (found["schema"], found["status"]["cluster"]) == ("roost.top/1", "alpha")
    assert (found["nodes"][0]["name"], found["jobs"][0]["job_id"]) == ("n1", "1")
