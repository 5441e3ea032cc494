import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import hashlib
from pathlib import Path

import pytest
from tests.training.environments.test_decisions import decision

from roost_engine.queue.selector_columns import CLUSTER_COLUMNS, JOB_COLUMNS
from roost_formats.models.manifest import Manifest, manifest_path
from roost_formats.models.order import CLUSTER_NAME, JOBS_NAME, RANK_NAME, load_onnx_selector
from roost_formats.models.signature import ORDER
from roost_train.export.model_files import library_versions, write_model_files
from roost_train.networks.score_selector import ScoreSelector

pytestmark = pytest.mark.torch


def test_the_two_files_name_each_other_and_load(tmp_path: Path) -> None:
    selector, one = ScoreSelector.start(), decision(4)
    model, path = selector.to_onnx(), tmp_path / "made" / "here.onnx"
    columns = {JOBS_NAME: JOB_COLUMNS, CLUSTER_NAME: CLUSTER_COLUMNS}
    asked = {JOBS_NAME: one.jobs, CLUSTER_NAME: one.cluster}
    answers = {RANK_NAME: selector.ranks(one.jobs, one.cluster)}
    card = {"versions": library_versions()}
    write_model_files(path, model, ORDER, columns, (asked, answers), card)
    manifest = Manifest.from_json(manifest_path(path).read_text(encoding="utf-8"), ORDER)
    assert manifest.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest.size_bytes == path.stat().st_size
    assert manifest.card == card
    assert load_onnx_selector(path, lambda: 0.0).name == f"onnx:{manifest.sha256[:12]}"
