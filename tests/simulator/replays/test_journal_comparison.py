"""Recorded jobs beside simulations of them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.daemon.running import config, running
from tests.simulator.journals import WrittenJournal
from tests.simulator.simulated import arrival, cluster

from roost_engine.plugins.plugins import Policies
from roost_engine.testing.builders import node
from roost_formats.models.score import load_onnx_score
from roost_formats.testing.onnx_models import ModelParts, install_model
from roost_sim.catalogue.compositions import POLICIES, find_policy
from roost_sim.catalogue.gates import GATES
from roost_sim.cli import cli
from roost_sim.replays.journal_comparison import JournalComparison, compare_with, read_history
from roost_sim.replays.recording import ModelShelf, Recording
from roostd.testing.slurm_stand_in import SlurmStandIn


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", *(str(argument) for argument in arguments)])


def compared(path: Path, policy: str = "sjf", *models: Path) -> JournalComparison:
    with Recording(path) as recording:
        history = read_history(recording, lambda count: None)
        return compare_with(recording, history, find_policy(policy), ModelShelf(models))


def test_the_recorded_policy_simulated_is_what_was_recorded(three_jobs: Path) -> None:
    found = compared(three_jobs)
    assert found.repeated is not None
    assert found.repeated.figures == found.recorded.figures
    assert (found.repeated.policy, found.recorded.policy) == ("heuristic", "heuristic")


def test_without_the_recorded_model_its_simulation_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    model = install_model(tmp_path / "model", ModelParts().encode())
    policies = Policies(score=load_onnx_score(model, clock=lambda: 0.0))
    with WrittenJournal(tmp_path, policies=policies) as journal:
        journal.simulate(cluster(1), arrival("1", 0.0, 10.0))

    without = run(journal.path, "--policy", "sjf", "--json")
    assert json.loads(without.stdout)["repeated"] is None
    assert "the recorded policy is not simulated: " in without.stderr
    with_model = compared(journal.path, "sjf", model)
    assert with_model.repeated is not None
    assert with_model.repeated.policy.startswith("onnx:")


async def test_a_daemons_journal_under_another_policy(tmp_path: Path) -> None:
    slurm = SlurmStandIn([node("n1"), node("n2")])
    settings = config(tmp_path)
    async with running(slurm, settings) as daemon:
        (first,) = slurm.submit(gpus_per_node=8, nodes=(2, 2))
        await daemon.until_running(first)
        big, small = slurm.submit(gpus_per_node=8, nodes=(2, 2)), slurm.submit(gpus_per_node=8)
        watch = daemon.daemon.parts.watch
        await daemon.until(lambda: {*big, *small} <= {*watch.leased()}, "both are seen")
        for job_id in (first, *big, *small):
            await daemon.until_running(job_id)
            slurm.end(job_id)
        records = daemon.daemon.state.engine.records
        await daemon.until(lambda: not dict(records()), "all have ended")

    found = compared(settings.paths.state_dir, "smallest-first")
    assert found.recorded.figures.jobs == found.simulated.figures.jobs == 3
    assert found.unplaced == 0


@pytest.mark.parametrize("rule", ["las-moves", "leases", "las"])
def test_a_rule_may_stop_jobs_that_state_no_checkpoint(tmp_path: Path, rule: str) -> None:
    with WrittenJournal(tmp_path) as journal:
        jobs = arrival("1", 0.0, 5_000.0, 8), arrival("2", 10.0, 100.0, 8)
        journal.simulate(cluster(1), *jobs)

    found = compared(journal.path, f"las+consolidation+open+{rule}")
    assert found.simulated.preemptions == 1


@pytest.mark.parametrize("policy", [*POLICIES, *(f"fifo+consolidation+{gate}" for gate in GATES)])
def test_every_policy_gets_what_it_asks_for(three_jobs: Path, policy: str) -> None:
    found = compared(three_jobs, policy)
    assert found.simulated.all_jobs == found.recorded.figures.jobs + found.unplaced == 3
