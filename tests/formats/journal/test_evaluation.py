"""evaluation: questions and answers survive the codec, with a canary and a gate in them."""

from roost_engine.engine import EngineConfig
from roost_engine.gate.dally import DallyConfig
from roost_engine.plugins.plugins import Canary, Plugins
from roost_engine.policies.canary import Slot
from roost_formats.journal.codec import decode, encode
from roost_formats.journal.evaluation import Contender, EvaluationFailed, EvaluationTask


def test_a_task_comes_back_as_it_was() -> None:
    canary = Canary(slot=Slot.GATE, share_frac=0.1, gate=DallyConfig())
    side = Contender(plugins=Plugins(canary=canary), score="heuristic")
    task = EvaluationTask(
        journal="/j", active=side, candidate=side, config=EngineConfig(), model_paths=("/m",)
    )
    assert decode(encode(task), EvaluationTask) == task
    failed = EvaluationFailed(reason="no journal")
    assert decode(encode(failed), EvaluationFailed) == failed
