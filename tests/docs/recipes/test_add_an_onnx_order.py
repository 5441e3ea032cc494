"""docs/recipes/add-an-order-that-is-an-onnx-model.md followed: a real model orders the queue."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.docs.recipes.recipe import files_of, modules_naming
from tests.simulator.simulated import arrival, cluster, simulate

from roost_engine.domain.actions import Action, PolicyFailed
from roost_engine.domain.config import EngineConfig
from roost_engine.domain.model import JobId
from roost_engine.plugins.plugins import Policies
from roost_engine.policies.protocols import QueueView, RefreshedOrder
from roost_engine.prediction.predictors import Predictors
from roost_engine.queue.model_order import ModelOrder, order_by
from roost_engine.testing.builders import EngineHarness, job, node, placed
from roost_formats.models.checked_model import Arrays, CheckedModel, Session
from roost_formats.models.loader import load_model
from roost_formats.models.model_order import OnnxOrder, load_onnx_order
from roost_formats.models.signature import ORDER
from roost_formats.testing.onnx_models import (
    ModelParts,
    install_kind,
    operation,
    tensor,
    value_info,
)
from roost_formats.testing.sessions import FakeClock, NanSession, SlowSession
from roost_sim.catalogue.compositions import find_policy
from roost_sim.information.policy_information import PolicyInformation

RECIPE = "add-an-order-that-is-an-onnx-model.md"


# -- steps 1 and 2: the columns and the two files ----------------------------------------------


def parts() -> ModelParts:
    """The rank of a job falls with its GPUs and grows with its wait; the cluster counts 0."""
    return ModelParts(
        nodes=[
            operation("MatMul", ["jobs", "of_job"], ["own"]),
            operation("MatMul", ["cluster", "of_cluster"], ["shared"]),
            operation("Add", ["own", "shared"], ["rank"]),
        ],
        weights=[
            tensor("of_job", np.array([[1], [-1]], np.float32)),
            tensor("of_cluster", np.zeros((1, 1), np.float32)),
        ],
        inputs=[value_info("jobs", ["n", 2]), value_info("cluster", [1])],
        outputs=[value_info("rank", ["n", 1])],
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The model, with its manifest."""
    return install_kind(
        tmp_path,
        parts().encode(),
        ORDER,
        columns={"jobs": ("waited_log", "gpu_log"), "cluster": ("free_frac",)},
        canary_inputs={
            "jobs": np.array([[5, 1], [2, 8]], np.float32),
            "cluster": np.array([0], np.float32),
        },
        canary_outputs={"rank": np.array([4, -6], np.float32)},
    )


def ordered_by(file: Path) -> ModelOrder:
    """The order as roostd makes it of a promoted model."""
    order = order_by(load_onnx_order(file, FakeClock()), Predictors())
    assert isinstance(order, ModelOrder)
    return order


class Loaded:
    """A loaded model as a session, for another CheckedModel to watch."""

    def __init__(self, model: CheckedModel) -> None:
        self._model = model

    def run(self, inputs: Arrays) -> Arrays:
        return self._model.ask(inputs)


def spoiled(model: CheckedModel, session: Session, clock: FakeClock) -> ModelOrder:
    """The same order, with a session that a test has spoiled."""
    watched = CheckedModel(
        session, model.signature, sha256="0" * 64, columns=model.columns, clock=clock
    )
    return ModelOrder(OnnxOrder(watched), Predictors())


# -- step 3: in a simulation -------------------------------------------------------------------


def test_a_simulation_takes_the_model_by_its_file(file: Path) -> None:
    policy = find_policy(f"selector:{file}+consolidation+open")
    jobs = [arrival("0", 0.0, 100.0, 8), arrival("1", 1.0, 10.0, 8), arrival("2", 2.0, 10.0, 2)]

    outcome = simulate(
        cluster(1),
        *jobs,
        policies=policy.build(PolicyInformation(work_s={}, seed=0)),
        config=policy.engine_config(EngineConfig()),
    )

    assert [result.started_s for result in outcome.jobs] == [0.0, 110.0, 100.0]


# -- step 4: in the engine ---------------------------------------------------------------------

WIDE = job("1", gpus=6, priority=100)  # Slurm would serve it first
SMALL = job("2", gpus=4)  # the model does: half the wait weighs less than a half more GPUs


def served_after_two_minutes(order: ModelOrder) -> tuple[EngineHarness, tuple[Action, ...]]:
    """Two jobs wait for a busy node; what the engine does when the node is free."""
    harness = EngineHarness([node("n1")], policies=Policies(order=order))
    harness.run(job("0", gpus=8))
    harness.queue(WIDE)
    harness.advance(60.0)
    harness.queue(SMALL)
    harness.advance(120.0)
    actions = harness.end("0")
    harness.engine.check_invariants()
    return harness, actions


def failures(actions: Sequence[Action]) -> list[PolicyFailed]:
    return [action for action in actions if isinstance(action, PolicyFailed)]


def test_the_model_orders_the_queue(file: Path) -> None:
    order = ordered_by(file)
    harness, actions = served_after_two_minutes(order)

    assert isinstance(order, RefreshedOrder)
    assert placed(actions).keys() == {"2"}
    assert harness.engine.policy_names["order"] == order.name
    assert harness.engine.fault_counts["order"] == 0
    assert failures(harness.actions) == []


def test_jobs_of_the_same_rank_keep_slurms_order(file: Path) -> None:
    harness = EngineHarness([node("n1", 4)], policies=Policies(order=ordered_by(file)))
    harness.run(job("0", gpus=4))
    harness.queue(*(job(str(number), gpus=4) for number in (10, 9, 11)))
    assert placed(harness.end("0")).keys() == {"9"}
    assert harness.engine.fault_counts["order"] == 0


def test_without_an_answer_slurms_priority_orders_the_queue(file: Path) -> None:
    model = load_model(file, ORDER.kind, FakeClock())
    order = spoiled(model, NanSession(Loaded(model)), FakeClock())
    harness, actions = served_after_two_minutes(order)

    assert placed(actions).keys() == {"1"}
    (failed,) = failures(actions)
    assert (failed.slot, failed.policy) == ("order", "onnx:000000000000")
    assert failed.reason == "onnx:000000000000 answered NaN or infinity"
    assert harness.engine.fault_counts["order"] == len(failures(harness.actions)) > 1


def test_a_model_that_is_too_slow_three_times_is_out_of_service_for_a_minute(file: Path) -> None:
    clock = FakeClock()
    slow_s = 2 * ORDER.budget.answer_s
    model = load_model(file, ORDER.kind, FakeClock())
    session = SlowSession(Loaded(model), clock, slow_s, slow_s, slow_s)
    harness, actions = served_after_two_minutes(spoiled(model, session, clock))

    told = [failed.reason for failed in failures(harness.actions)]
    assert "more than 50 ms 3 times in a row; out of service for 60 s" in told[0]
    assert placed(actions).keys() == {"1"}

    clock.now_s += ORDER.budget.out_of_service_s
    harness.queue(job("3", gpus=1), job("4", gpus=1))
    assert failures(harness.actions)[-1].reason == told[-1]
    assert harness.engine.fault_counts["order"] == len(told)


def test_a_ranking_that_leaves_a_job_out_is_not_used(file: Path) -> None:
    class Forgetful(ModelOrder):
        def rank(self, view: QueueView) -> Sequence[JobId]:
            return super().rank(view)[:1]

    _, actions = served_after_two_minutes(
        Forgetful(load_onnx_order(file, FakeClock()), Predictors())  # type: ignore[arg-type]
    )

    assert placed(actions).keys() == {"1"}
    assert "ranked 1 jobs, not each of the 2 queued once" in failures(actions)[0].reason


# -- that the recipe is true of the columns that exist -----------------------------------------


def test_a_column_is_named_in_the_files_of_the_recipe_and_no_others() -> None:
    files = files_of(RECIPE)
    naming = modules_naming(r"\bservice_days\b")
    assert naming == {path for path in files if path.endswith(".py")}
