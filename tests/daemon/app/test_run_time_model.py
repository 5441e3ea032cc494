"""A model of run times in a daemon: from the configuration to every page that names it."""

import asyncio
from contextlib import closing
from pathlib import Path

from tests.daemon.running import Running, config, running

from roost_engine.domain.model import JobId
from roost_engine.prediction.predictors import Predictors
from roost_engine.testing import builders
from roost_formats.journal.reader import JournalReader
from roost_formats.testing.run_time_models import install_run_times
from roost_proto.v1 import operator_pb2 as pb
from roost_sim.replays.recording import ModelShelf, Recording
from roost_sim.replays.replay import replay
from roostd.config.config import Config
from roostd.testing.slurm_stand_in import SlurmStandIn

DAY_BAND = 22  # 13 to 20 hours


def learned(folder: Path, model: Path | str) -> Config:
    return config(folder, order={"kind": "learned", "run_time_model": str(model)})


async def predictor(daemon: Running) -> pb.SlotPolicy:
    async with daemon.operator() as operator:
        status = await operator.GetStatus(pb.GetStatusRequest())
    (found,) = (one for one in status.slots if one.slot == "run-times")
    return found


async def explained(daemon: Running, job_id: JobId) -> pb.Explanation:
    async with daemon.operator() as operator:
        return await operator.ExplainJob(pb.ExplainJobRequest(job_id=job_id))


async def reloaded(daemon: Running) -> None:
    engine = daemon.daemon.state.engine
    daemon.daemon.reload()
    await daemon.until(lambda: daemon.daemon.state.engine is not engine, "a new engine")


async def test_a_model_that_is_configured_predicts_and_is_named_everywhere(tmp_path: Path) -> None:
    slurm = SlurmStandIn([builders.node("n1")])
    model = install_run_times(tmp_path / "model", band=DAY_BAND)
    settings = [learned(tmp_path, model)]
    async with running(slurm, settings[0], lambda: settings[-1]) as daemon:
        await daemon.until_running(*slurm.submit(gpus_per_node=8))
        (waits,) = slurm.submit(gpus_per_node=8)
        records = daemon.daemon.state.engine
        await daemon.until(lambda: waits in dict(records.known_jobs()), "the job is known")
        by_model = await explained(daemon, waits)
        named = await predictor(daemon)
        assert named.policy.startswith("onnx:")
        assert (named.heuristic, named.fault_count) == ("history", 0)
        assert named.policy in [one.policy for one in by_model.slots]
        labels = {"slot": "run-times", "policy": named.policy}
        await daemon.until(lambda: daemon.count("roost_policy_info", **labels) == 1, "the gauge")

        settings.append(learned(tmp_path, "none"))
        await reloaded(daemon)
        await daemon.until(lambda: bool(list(daemon.daemon.state.engine.records())), "the queue")
        assert (await predictor(daemon)).policy == "history"
        by_history = await explained(daemon, waits)
        assert by_model.expected_run.median_s > 5 * by_history.expected_run.median_s
    with closing(JournalReader(settings[0].paths.state_dir)) as reader:
        names = [run.head.policies["run-times"] for run in reader.runs()]
    assert names == [named.policy, "history"]


async def test_a_file_that_was_swapped_is_refused_at_the_reload_and_the_history_answers(
    tmp_path: Path,
) -> None:
    slurm = SlurmStandIn([builders.node("n1")])
    model = install_run_times(tmp_path / "model", band=DAY_BAND)
    async with running(slurm, learned(tmp_path, model)) as daemon:
        model.write_bytes(b"half a mod")
        await daemon.until_running(*slurm.submit(gpus_per_node=1))
        assert (await predictor(daemon)).policy.startswith("onnx:"), "it stays in memory"

        await reloaded(daemon)
        await daemon.until_running(*slurm.submit(gpus_per_node=1))

        assert (await predictor(daemon)).policy == "history"
        async with daemon.operator() as operator:
            status = await operator.GetStatus(pb.GetStatusRequest())
        assert status.policy_fault.startswith(f"{model}: the file has sha256")
        assert status.policy_fault.endswith("the history of run times answers alone")
        await daemon.until(lambda: daemon.count("roost_policy_fault") == 1, "the gauge")


async def test_answers_that_are_no_numbers_are_counted_and_the_journal_repeats_them(
    tmp_path: Path,
) -> None:
    slurm = SlurmStandIn([builders.node("n1")])
    model = install_run_times(tmp_path / "model", breaks_on_gangs=True)
    settings = learned(tmp_path, model)
    async with running(slurm, settings) as daemon:
        await daemon.until_running(*slurm.submit(gpus_per_node=1))
        assert (await predictor(daemon)).fault_count == 0
        (gang,) = slurm.submit(gpus_per_node=4)
        await daemon.until_running(gang)
        found = await predictor(daemon)
        assert found.fault_count == 1
        assert found.last_fault.endswith("answered NaN or infinity")
        assert daemon.count("roost_policy_faults_total", slot="run-times") == 1
        # What a reader asks is no question of the engine's: a replay could not number it.
        before = dict(daemon.daemon.state.engine.fault_counts)
        predictors = daemon.daemon.state.engine.policies.predictors
        assert isinstance(predictors, Predictors)
        await asyncio.gather(*(explained(daemon, gang) for _ in range(3)))
        assert dict(daemon.daemon.state.engine.fault_counts) == before
        slurm.end(gang)
        await daemon.until_running(*slurm.submit(gpus_per_node=4))
    with Recording(settings.paths.state_dir) as recording:
        assert replay(recording, ModelShelf([model]), lambda count: None).difference is None
