"""policy_desk: shadow, evaluate, promote, canary and rollback in a running daemon."""

import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import grpc
import pytest
from tests.daemon.running import Running, config, running
from tests.formats.models.test_model_order import install

from roost_engine.domain.errors import PolicyRefused, UnknownPolicy
from roost_engine.policies.canary import Slot
from roost_engine.testing import builders
from roost_formats.journal.evaluation import Evaluation, EvaluationTask, PolicyFigures, Ratio
from roost_formats.journal.reader import JournalReader
from roost_formats.models.manifest import manifest_path
from roost_proto.v1 import policy_pb2 as pb
from roost_proto.v1 import policy_pb2_grpc as pb_grpc
from roostd.app.promotion.policy_desk import PolicyDesk
from roostd.config.config import Config
from roostd.ops.promotions import (
    FILE_NAME,
    Promotion,
    Promotions,
    ShadowRequest,
    read_promotions,
    write_promotions,
)
from roostd.testing.slurm_stand_in import SlurmStandIn

FIGURES = PolicyFigures(avg_jct_s=100.0, p99_jct_s=500.0, lost_frac=0.3, preemption_count=0)
BETTER = Ratio(value=0.9, low=0.85, high=0.95)
WORSE = Ratio(value=1.2, low=1.1, high=1.4)


def evaluation(avg: Ratio = BETTER, p99: Ratio = BETTER, job_count: int = 500) -> Evaluation:
    return Evaluation(
        job_count=job_count,
        left_out_count=0,
        window_s=604_800.0,
        active=replace(FIGURES, lost_frac=0.4),
        candidate=FIGURES,
        avg_ratio=avg,
        p99_ratio=p99,
        recorded_avg_jct_s=100.0,
    )


class FakeEvaluator:
    """Finds what it was told to, and remembers what it was asked."""

    def __init__(self, found: Evaluation) -> None:
        self.found, self.asked = found, list[EvaluationTask]()
        self.meanwhile: Callable[[], None] = lambda: None

    async def evaluate(self, task: EvaluationTask) -> Evaluation:
        self.asked.append(task)
        self.meanwhile()
        return self.found


@pytest.fixture
def slurm() -> SlurmStandIn:
    return SlurmStandIn([builders.node("n1"), builders.node("n2")])


@asynccontextmanager
async def desk_of(
    slurm: SlurmStandIn, settings: Config, found: Evaluation | None = None
) -> AsyncIterator[tuple[Running, PolicyDesk, FakeEvaluator]]:
    async with running(slurm, settings) as daemon:
        evaluator = FakeEvaluator(found or evaluation())
        daemon.daemon.parts.desk._evaluator = evaluator
        yield daemon, daemon.daemon.parts.desk, evaluator


def audited(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "state" / "audit.log").read_text().splitlines()]


async def test_a_policy_is_evaluated_canaried_and_promoted_without_a_restart(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, evaluator):
        await daemon.until_running(*slurm.submit(gpus_per_node=2))
        with pytest.raises(PolicyRefused, match="not compared with order:priority lately"):
            desk.promote("order:las", "ann", {})
        stored = await desk.evaluate("las", "ann", 0.0, {})
        assert (stored.policy, stored.against, stored.refusal) == (
            "order:las",
            "order:priority",
            "",
        )
        (task,) = evaluator.asked
        assert (task.active.plugins.order, task.candidate.plugins.order) == ("priority", "las")
        assert task.last_s == 604_800.0

        with pytest.raises(PolicyRefused, match="0 jobs have ended under it as a canary, want 30"):
            desk.promote("las", "ann", {})
        desk.promote("las", "ann", {}, share_frac=0.5)
        assert daemon.daemon.state.engine.policy_names["order"] == "priority+las"
        await daemon.until_running(*slurm.submit(gpus_per_node=2))

        state = daemon.daemon.state
        canary = state.promotions.canary
        assert canary is not None
        assert canary.evidence.predicted_frac == 0.3
        assert canary.evidence.wait_limit_s == 1500.0
        enough = replace(canary, evidence=replace(canary.evidence, job_count=30))
        state.promotions = replace(state.promotions, canary=enough)
        desk.promote("las", "ann", {})
        assert state.engine.policy_names["order"] == "las"
        assert state.config.choice.in_effect.order == "las"
        assert state.promotions.canary is None
        await daemon.until_running(*slurm.submit(gpus_per_node=2))
        with pytest.raises(PolicyRefused, match="decides already"):
            desk.promote("las", "ann", {})

        desk.roll_back("", "ann", {})
        assert state.engine.policy_names["order"] == "priority"
        with pytest.raises(PolicyRefused, match="no policy is promoted"):
            desk.roll_back("", "ann", {})
    told = [line["action"] for line in audited(tmp_path)]
    assert told == [
        "promote_policy_refused",
        "evaluate_policy",
        "promote_policy_refused",
        "promote_policy",
        "promote_policy",
        "promote_policy_refused",
        "roll_back_policy",
    ]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (evaluation(avg=WORSE), "average completion time is 1.200 of the present one"),
        (evaluation(p99=WORSE), "p99 completion time is 1.200"),
        (evaluation(avg=Ratio(value=1.0, low=0.9, high=1.02)), "2.0% longer, 1.0% is allowed"),
        (evaluation(avg=Ratio(value=1.0, low=0.9, high=float("nan"))), "average"),
        (evaluation(job_count=99), "only 99 jobs could be compared, want 100"),
    ],
)
async def test_a_policy_that_may_be_worse_is_refused_with_the_figures_unless_forced(
    slurm: SlurmStandIn, tmp_path: Path, found: Evaluation, words: str
) -> None:
    async with desk_of(slurm, config(tmp_path), found) as (daemon, desk, _):
        assert words in (await desk.evaluate("las", "ann", 0.0, {})).refusal
        with pytest.raises(PolicyRefused, match="order:las"):
            desk.promote("las", "ann", {}, share_frac=0.1)
        desk.promote("las", "ann", {}, share_frac=0.1, force=True)
        canary = daemon.daemon.state.promotions.canary
        assert canary is not None
        assert canary.is_forced
    assert words in str(audited(tmp_path)[-1]["refusal"])


async def test_promotions_survive_a_restart_and_a_damaged_file_leaves_the_configured_policy(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (_, desk, _):
        desk.promote("gate:dally", "ann", {}, force=True)
        desk.shadow("order:las", "ann", {})
    kept, fault = read_promotions(tmp_path / "state")
    assert (kept.promoted[Slot.GATE].name, fault) == ("dally", "")
    async with running(slurm, config(tmp_path)) as daemon:
        assert daemon.daemon.state.engine.policy_names["gate"] == "dally"
        assert daemon.daemon.state.shadow is not None
        before = daemon.daemon.state.engine
        daemon.daemon.reload()
        await daemon.until(lambda: daemon.daemon.state.engine is not before, "a fresh engine")
        assert daemon.daemon.state.engine.policy_names["gate"] == "dally"
    path = tmp_path / "state" / FILE_NAME
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    async with running(slurm, config(tmp_path)) as daemon:
        state = daemon.daemon.state
        gate = state.engine.policy_names["gate"]
        assert gate == "uplink-delay", "not dally, which was promoted"
        assert "the configured policies decide" in state.promotions_fault
        await daemon.until_running(*slurm.submit(gpus_per_node=2))
    assert path.with_name(f"{FILE_NAME}.damaged").exists()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """An order model in the folder of models."""
    folder = tmp_path / "state" / "models"
    folder.mkdir(parents=True)
    found = install(folder)
    path = found.rename(folder / "short.onnx")
    manifest_path(found).rename(manifest_path(path))
    return path


def spoil(path: Path, end: bytes = b"") -> None:
    """Cut a file short, or put something behind it."""
    content = path.read_bytes()
    path.write_bytes(content + end if end else content[:-5])


async def test_a_model_orders_the_queue_until_its_file_is_swapped(
    slurm: SlurmStandIn, tmp_path: Path, model: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, evaluator):
        await desk.evaluate("order:short", "ann", 0.0, {})
        name = evaluator.asked[0].candidate.plugins.order_model
        assert name.startswith("onnx:")
        assert evaluator.asked[0].model_paths == (str(model),)
        desk.promote("short", "ann", {}, share_frac=0.5)
        assert daemon.daemon.state.engine.policy_names["order"] == f"priority+{name}"
        desk.promote("short", "ann", {}, force=True)
        assert daemon.daemon.state.engine.policy_names["order"] == name
        await daemon.until_running(*slurm.submit(gpus_per_node=2))
        with closing(JournalReader(tmp_path / "state")) as reader:
            assert reader.runs()
    spoil(model, b"\0")
    async with running(slurm, config(tmp_path)) as daemon:
        state = daemon.daemon.state
        assert state.engine.policy_names["order"] == "priority"
        assert Slot.ORDER in state.promotion_faults
        assert state.policy_failures["order"] == state.promotion_faults[Slot.ORDER]


async def test_a_model_that_does_not_load_is_refused_at_every_stage(
    slurm: SlurmStandIn, tmp_path: Path, model: Path
) -> None:
    spoil(model)
    async with desk_of(slurm, config(tmp_path)) as (_, desk, evaluator):
        with pytest.raises(PolicyRefused, match="cannot be loaded"):
            desk.shadow("short", "ann", {})
        with pytest.raises(PolicyRefused, match="cannot be loaded"):
            await desk.evaluate("short", "ann", 0.0, {})
        with pytest.raises(PolicyRefused, match="cannot be loaded"):
            desk.promote("short", "ann", {}, force=True)
        assert not evaluator.asked


async def test_a_model_whose_file_changes_while_it_is_evaluated_was_not_compared(
    slurm: SlurmStandIn, tmp_path: Path, model: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, evaluator):
        evaluator.meanwhile = lambda: spoil(model)
        with pytest.raises(PolicyRefused, match="order:short"):
            await desk.evaluate("short", "ann", 0.0, {})
        assert not daemon.daemon.state.promotions.evaluations


async def test_no_policy_is_compared_with_a_file_that_took_the_place_of_the_promoted_one(
    slurm: SlurmStandIn, tmp_path: Path, model: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, evaluator):
        desk.promote("short", "ann", {}, force=True)
        spoil(model, b"\0")
        for policy in ("gate:dally", "order:las"):
            with pytest.raises(PolicyRefused, match=r"order:short decides from memory: .*reload"):
                await desk.evaluate(policy, "ann", 0.0, {})
        assert not evaluator.asked
        before = daemon.daemon.state.engine
        daemon.daemon.reload()
        await daemon.until(lambda: daemon.daemon.state.engine is not before, "a fresh engine")
        await desk.evaluate("order:las", "ann", 0.0, {})
        assert evaluator.asked[0].active.plugins.order == "priority"


@pytest.mark.parametrize("slot", ["placement:strict", "preemption:las-moves"])
async def test_slots_without_a_canary_say_so(
    slurm: SlurmStandIn, tmp_path: Path, slot: str
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, _):
        with pytest.raises(PolicyRefused, match="has no canary"):
            desk.promote(slot, "ann", {}, share_frac=0.1, force=True)
        await desk.evaluate(slot, "ann", 0.0, {})
        desk.promote(slot, "ann", {})
        await daemon.until_running(*slurm.submit(gpus_per_node=2))


async def test_one_canary_at_a_time_and_the_canary_goes_before_the_promotion(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, _):
        desk.promote("order:las", "ann", {}, force=True)
        desk.promote("order:learned", "ann", {}, share_frac=0.2, force=True)
        with pytest.raises(PolicyRefused, match="order:learned is the canary"):
            desk.promote("gate:dally", "ann", {}, share_frac=0.2, force=True)
        with pytest.raises(UnknownPolicy, match="no policy order:best"):
            desk.promote("order:best", "ann", {})
        desk.roll_back("order", "ann", {})
        assert daemon.daemon.state.engine.policy_names["order"] == "las"


async def test_a_policy_that_falls_behind_is_rolled_back_and_audited(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, _):
        await desk.evaluate("las", "ann", 0.0, {})
        desk.promote("las", "ann", {}, force=True)
        state = daemon.daemon.state
        promoted = state.promotions.promoted[Slot.ORDER]
        bad = replace(promoted.evidence, fortunes=(500.0, 500.0, 500.0), job_count=20)
        one = replace(promoted, evidence=bad)
        state.promotions = replace(state.promotions, promoted={Slot.ORDER: one})
        await daemon.until(lambda: not state.promotions.promoted, "the policy is taken out")
        assert state.engine.policy_names["order"] == "priority"
        assert "the evidence is 500, the limit 100" in state.promotions.rollbacks[Slot.ORDER].reason
        await daemon.until_running(*slurm.submit(gpus_per_node=2))
    last = audited(tmp_path)[-1]
    assert (last["action"], last["by"]) == ("roll_back_policy", "roostd")
    assert read_promotions(tmp_path / "state")[0].rollbacks[Slot.ORDER].by == "roostd"


async def test_a_canary_outlives_the_policy_of_all_other_users_that_falls_behind(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, _):
        desk.promote("las", "ann", {}, force=True)
        desk.promote("learned", "ann", {}, share_frac=0.5, force=True)
        state = daemon.daemon.state
        promoted = state.promotions.promoted[Slot.ORDER]
        bad = replace(promoted.evidence, fortunes=(500.0, 500.0, 500.0), job_count=20)
        one = replace(promoted, evidence=bad)
        state.promotions = replace(state.promotions, promoted={Slot.ORDER: one})
        await daemon.until(lambda: Slot.ORDER in state.promotions.rollbacks, "one is taken out")
        assert state.promotions.rollbacks[Slot.ORDER].policy == "order:las"
        assert not state.promotions.promoted
        assert str(state.promotions.canary) == "order:learned"
        assert state.engine.policy_names["order"] == "priority+learned"
    assert audited(tmp_path)[-1]["policy"] == "order:las"


@pytest.mark.parametrize("share_frac", [1.0, 0.5])
@pytest.mark.parametrize("slot", [slot for slot in Slot if slot is not Slot.SCORE])
async def test_a_policy_that_another_version_promoted_does_not_keep_roostd_from_starting(
    slurm: SlurmStandIn, tmp_path: Path, slot: Slot, share_frac: float
) -> None:
    settings = config(tmp_path)
    settings.paths.state_dir.mkdir(parents=True, exist_ok=True)
    later = Promotion(slot=slot, name="later", share_frac=share_frac, by="ann")
    shadow = ShadowRequest(slot=slot, name="later", since_epoch_s=1.0)
    write_promotions(
        settings.paths.state_dir, replace(Promotions().with_promotion(later), shadow=shadow)
    )
    async with desk_of(slurm, settings) as (daemon, desk, _):
        state = daemon.daemon.state
        assert f"no policy {slot}:later in this version" in state.promotion_faults[slot]
        assert state.shadow is not None
        assert f"no policy {slot}:later in this version" in state.shadow.fault
        await daemon.until_running(*slurm.submit(gpus_per_node=2))
        desk.roll_back("", "ann", {})
        assert not state.promotion_faults


async def test_jobs_that_end_are_counted_and_the_count_survives(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, _):
        desk.promote("las", "ann", {}, force=True)
        (job_id,) = slurm.submit(gpus_per_node=2)
        await daemon.until_running(job_id)
        slurm.end(job_id)
        promotions = daemon.daemon.state
        await daemon.until(
            lambda: promotions.promotions.promoted[Slot.ORDER].evidence.job_count == 1,
            "the job counts",
        )
    assert read_promotions(tmp_path / "state")[0].promoted[Slot.ORDER].evidence.job_count == 1


async def test_the_shadow_decides_beside_the_active_policy_and_is_journalled(
    slurm: SlurmStandIn, tmp_path: Path
) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, _):
        desk.shadow("score:builtin", "ann", {})
        await daemon.until_running(*slurm.submit(gpus_per_node=2))
        figures = daemon.daemon.state.shadow
        assert figures is not None
        await daemon.until(lambda: figures.decision_count == 1, f"the shadow chose {figures}")
        assert figures.fault == ""
        (choice,) = figures.choices.values()
        assert (choice.policy, choice.slot) == ("score:builtin", "score")
        assert choice.shadow is not None
        async with grpc.aio.insecure_channel(f"unix:{daemon.config.operator_socket}") as channel:
            stub = pb_grpc.PoliciesStub(channel)  # type: ignore[no-untyped-call, unused-ignore]
            told = await stub.ExplainShadow(pb.ExplainShadowRequest(job_id=choice.job_id))
            assert told.is_known
            assert told.differs == choice.differs
            listed = (await stub.ListPolicies(pb.ListPoliciesRequest())).policies
            assert [one.name for one in listed if one.is_shadow] == ["builtin"]
            shown = await stub.ShowPolicies(pb.ShowPoliciesRequest())
            assert shown.shadow.decision_count == 1
        desk.shadow("", "ann", {})
        assert daemon.daemon.state.shadow is None
    with closing(JournalReader(tmp_path / "state")) as reader:
        found = [one for run in reader.runs() for one in reader.shadow_choices(run)]
    assert found == [choice]


async def test_a_full_disk_changes_nothing(slurm: SlurmStandIn, tmp_path: Path) -> None:
    async with desk_of(slurm, config(tmp_path)) as (daemon, desk, _):
        (tmp_path / "state" / f"{FILE_NAME}.new").mkdir()
        with pytest.raises(Exception, match="nothing was changed"):
            desk.promote("las", "ann", {}, force=True)
        assert daemon.daemon.state.engine.policy_names["order"] == "priority"
        shutil.rmtree(tmp_path / "state" / f"{FILE_NAME}.new")
