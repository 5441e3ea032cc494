import tests.training.torch_library  # noqa: F401  (skips this module where torch is missing)

# isort: split
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.docs.fake_agent import SOCKET, blocks, fake_agent

pytestmark = pytest.mark.torch


def example(path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the Python examples as one program, with another socket, in job 7."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    found: dict[str, Any] = {}
    source = "\n".join(blocks("python"))
    assert SOCKET in source
    exec(compile(source.replace(SOCKET, str(path)), "interference.md", "exec"), found)
    return found


def train(found: dict[str, Any], step_count: int, **options: Any) -> float:
    """Train a line through a few points; returns how far it moved."""
    torch.manual_seed(1)
    model = torch.nn.Linear(2, 1)
    before = model.weight.detach().clone()
    batches = [(torch.randn(4, 2), torch.randn(4, 1)) for _ in range(step_count)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found["train"](model, batches, optimizer, **options)
    return float((model.weight.detach() - before).abs().sum())


def test_a_training_loop_reports_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_agent() as agent:
        found = example(agent.path, monkeypatch)
        found["EVERY_S"] = 0.0
        assert train(found, 3) > 0
    assert agent.reports == [{"op": "progress", "job_id": 7, "steps": at} for at in (1, 2, 3)]


def test_a_minute_has_one_report_and_other_ranks_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with fake_agent() as agent:
        found = example(agent.path, monkeypatch)
        train(found, 5)
        train(found, 5, is_first_rank=False)
    assert [report["steps"] for report in agent.reports] == [1]


def test_training_continues_without_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert train(example(tmp_path / "gone.sock", monkeypatch), 3) > 0
