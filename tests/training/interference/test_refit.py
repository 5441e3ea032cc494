"""roost-train interference --journal: a better model is taken, a worse one is refused."""

import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn (the train extra)")

from tests.training.interference_journals import DAYS, write_journal

from roost_engine.prediction.interference.interference_vector import vector
from roost_engine.testing.interference_cases import case_of
from roost_formats.models.interference import SHIPPED_INTERFERENCE, load_onnx_interference
from roost_train.cli import main
from roost_train.interference.fit import _STRETCH

TRUE_COST = 2.5 * _STRETCH


def refit(
    journal: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> tuple[int, dict[str, object]]:
    code = main(["interference", "--journal", str(journal), "--out", str(out), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_model_that_predicts_the_last_week_better_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal, out = write_journal(tmp_path, lambda day: TRUE_COST), tmp_path / "new"
    code, found = refit(journal, out, capsys)
    assert code == 0
    assert found["new_mae"] < 0.5 * found["old_mae"]  # type: ignore[operator]
    assert found["least_gain"] > 0  # type: ignore[operator]
    assert found["pressure"]["nic pcie"] == pytest.approx(TRUE_COST, rel=0.1)  # type: ignore[index]
    # What the journal says nothing of stays.
    assert found["pressure"]["switch nic"] == pytest.approx(_STRETCH, rel=1e-3)  # type: ignore[index]
    old = load_onnx_interference(SHIPPED_INTERFERENCE, lambda: 0.0)
    new = load_onnx_interference(Path(str(found["model"])), lambda: 0.0)
    assert new.net is not None
    assert new.name == found["new"] != old.name == found["old"]
    pair = case_of(vector({"pcie": 0.5}), {"nic": [vector({"pcie": 0.5})]})
    answers = [model.ask_runtime(pair).mean[0] for model in (old, new)]
    assert answers[1] == pytest.approx(TRUE_COST / 4, rel=0.1)
    assert answers[0] == pytest.approx(_STRETCH / 4, rel=1e-3)
    on_gpu = case_of(vector({"sm": 0.5}), {"gpu": [vector({"sm": 0.5})]})
    assert new.slowdowns(on_gpu).mean == pytest.approx(old.slowdowns(on_gpu).mean, abs=1e-6)


@pytest.mark.parametrize(
    "cost",
    [
        # Before the last week neighbours seemed to cost three times as much.
        lambda day: _STRETCH * (3.0 if day < DAYS - 7 else 1.0),
        lambda day: _STRETCH,  # the model in service is right
    ],
)
def test_a_model_that_is_not_better_is_refused_with_its_figures(
    cost: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal, out = write_journal(tmp_path, cost), tmp_path / "new"  # type: ignore[arg-type]
    code, found = refit(journal, out, capsys)
    assert code == 1
    assert found["least_gain"] <= 0  # type: ignore[operator]
    assert found["model"] is None
    assert not out.exists()
    assert main(["interference", "--journal", str(journal), "--out", str(out)]) == 1
    text = capsys.readouterr().out
    assert "refused: the last week is not predicted better" in text
    assert f"{found['old_mae']:.4f}" in text


def test_a_journal_without_reports_is_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from roost_formats.journal.journal import Journal

    Journal.open(tmp_path).close()
    assert main(["interference", "--journal", str(tmp_path)]) == 2
    assert "0 jobs before the last week with speed and neighbours" in capsys.readouterr().err
    assert main(["interference", "--journal", str(tmp_path / "none")]) == 2


def test_a_user_with_many_jobs_does_not_decide_alone() -> None:
    from roost_engine.prediction.interference.interference_model import Cases
    from roost_train.interference.journal import Reports
    from roost_train.interference.refit import _weight

    count, none = 101, np.zeros(101)
    user = np.array([1] * 100 + [2])
    reports = Reports(Cases.empty(count), none, none, none.astype(np.int64), np.arange(count), user)
    weight = _weight(reports)
    assert weight[user == 1].sum() == pytest.approx(10.0)
    assert weight[user == 2].sum() == pytest.approx(1.0)
