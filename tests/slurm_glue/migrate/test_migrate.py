"""Which nodes can be changed while jobs run and wait."""

import pytest
from tests.slurm_glue.recorded import RELEASES, read

from roost_slurm.migrate.migrate import NodeState, Stage, kinds_of, parse_nodes, plan
from roost_slurm.text.squeue import QueuedJob, SlurmJobState

NEW = "gpu:g0:1,gpu:g1:1"
OLD = "gpu:a100:2"
WANTED = dict.fromkeys(("gpu1", "gpu2", "gpu3"), NEW)


def nodes(**gres: str) -> list[NodeState]:
    return [NodeState(name, text if text else OLD, "idle") for name, text in gres.items()]


def running(number: int, where: str) -> QueuedJob:
    return QueuedJob(number=number, state=SlurmJobState.RUNNING, nodes=where)


def waiting(number: int, request: str, node_count: int = 1) -> QueuedJob:
    return QueuedJob(number=number, tres=(("TresPerNode", request),), node_count=node_count)


def stages(found: list[NodeState], *jobs: QueuedJob) -> dict[str, Stage]:
    return {step.node: step.stage for step in plan(found, WANTED, jobs)}


@pytest.mark.parametrize("release", RELEASES)
def test_nodes_with_gpus_are_read_of_every_release(release: str) -> None:
    found = parse_nodes(read(release, "show_nodes.txt"))
    assert found
    assert all("gpu" in node.gres and "(S:" not in node.gres and node.state for node in found)


def test_a_node_goes_from_busy_over_empty_and_ready_to_done() -> None:
    found = nodes(gpu1="", gpu2="", gpu3=NEW)
    assert stages(found, running(7, "gpu[1,3]")) == {
        "gpu1": Stage.BUSY,
        "gpu2": Stage.EMPTY,
        "gpu3": Stage.DONE,
    }
    drained = NodeState("gpu2", OLD, "idle+drain")
    assert stages([drained]) == {"gpu2": Stage.READY}


def test_a_node_that_drains_and_still_runs_a_job_is_busy() -> None:
    assert stages([NodeState("gpu1", OLD, "mixed+drain")], running(7, "gpu1")) == {
        "gpu1": Stage.BUSY
    }


def test_the_last_nodes_with_a_type_stay_while_waiting_jobs_name_it() -> None:
    asks = waiting(9, "gres:gpu:a100:1")
    assert set(stages(nodes(gpu1="", gpu2=""), asks).values()) == {Stage.EMPTY}
    assert stages(nodes(gpu1="", gpu2=NEW), asks)["gpu1"] is Stage.HELD
    wide = waiting(9, "gres/gpu:a100=2", node_count=2)
    assert set(stages(nodes(gpu1="", gpu2=""), wide).values()) == {Stage.HELD}
    plain = waiting(9, "gres/gpu:2", node_count=2)
    assert set(stages(nodes(gpu1="", gpu2=""), plain).values()) == {Stage.EMPTY}


def test_what_can_be_done_now_comes_first_and_says_how() -> None:
    found = [NodeState("gpu2", OLD, "idle+drain"), *nodes(gpu1="", gpu3=NEW)]
    steps = plan(found, WANTED, [running(7, "gpu1")])
    assert [step.node for step in steps if step.stage is not Stage.DONE] == ["gpu2", "gpu1"]
    assert "change it now" in str(steps[1])
    assert "runs 7: drain it and wait" in str(steps[2])


def test_nodes_that_nothing_is_known_of_stay_as_they_are() -> None:
    assert plan([NodeState("other", OLD, "idle")], WANTED, []) == []


def test_types_that_are_no_indices() -> None:
    assert kinds_of("gpu:a100:2,gpu:g3:1,gpu:s1:1,shard:4") == {"a100"}
    assert kinds_of("(null)") == frozenset()
    assert kinds_of("???") == frozenset()


@pytest.mark.parametrize(
    "shown", ["gpu:a100:2,shard:a100:8,nvme:4", "gpu:a100:1,gpu:a100:1,shard:a100:8,nvme:4"]
)
def test_a_node_is_done_however_slurm_shows_its_resources(shown: str) -> None:
    """Slurm shows how many shards each type of GPU has."""
    (step,) = plan([NodeState("gpu1", shown, "idle")], {"gpu1": "gpu:a100:2,nvme:4,shard:8"}, [])
    assert step.stage is Stage.DONE
    (step,) = plan([NodeState("gpu1", shown, "idle")], {"gpu1": "gpu:a100:2,nvme:4,shard:4"}, [])
    assert step.stage is Stage.EMPTY
