"""policy_evaluator: asks the simulator in a process, and says why there is no answer."""

from pathlib import Path

import pytest
from tests.simulator.journals import WrittenJournal
from tests.simulator.simulated import arrival, cluster

from roost_engine.engine import EngineConfig
from roost_engine.plugins.plugins import Plugins
from roost_formats.journal.evaluation import Contender, EvaluationTask
from roostd.app.promotion.policy_evaluator import NotEvaluated, ProcessEvaluator

SIDE = Contender(plugins=Plugins(), score="heuristic")


def task(path: Path) -> EvaluationTask:
    return EvaluationTask(journal=str(path), active=SIDE, candidate=SIDE, config=EngineConfig())


async def test_a_comparison_comes_from_a_process(tmp_path: Path) -> None:
    with WrittenJournal(tmp_path) as journal:
        journal.simulate(cluster(1), *(arrival(str(n), 0.0, 10.0, 8) for n in range(3)))
    found = await ProcessEvaluator().evaluate(task(journal.path))
    assert (found.job_count, found.avg_ratio.value) == (3, 1.0)


async def test_what_the_simulator_refuses_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotEvaluated, match="No such file"):
        await ProcessEvaluator().evaluate(task(tmp_path / "nothing"))


async def test_a_process_that_says_nothing_sensible_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roostd.app.promotion.policy_evaluator._WORKER", "roost_sim.no_such_module")
    with pytest.raises(NotEvaluated, match="No module named"):
        await ProcessEvaluator().evaluate(task(tmp_path))


async def test_a_comparison_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(NotEvaluated, match="take a shorter window"):
        await ProcessEvaluator(limit_s=0.01).evaluate(task(tmp_path))
