"""A running job gives up its GPUs on a real Slurm, and continues from its checkpoint."""

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import missing
from tests.e2e.ledger import outcomes, submit, until, until_exists, wait_for_death, wait_until_over
from tests.e2e.two_nodes import mended_afterwards

from roost_demo.stack import NodeKind, Stack
from roost_slurm.testing.availability import LocalSlurmUnavailable

pytestmark = [pytest.mark.slurm, pytest.mark.nvml]

WHOLE_NODE = ("--gres=gpu:8", "--comment=roost:model=toy,checkpoint=0.5")
STEPS = 40
STEP_S = 0.05
INTERVAL_STEPS = 10
# Counts steps; saves the count every ten, and continues from what was saved. `seen` is what a user
# would find lost: the last step that was done at all. The first run continues until it is stopped.
_TRAIN = """
state=$(pwd)/$SLURM_JOB_ID
step=$(cat $state.saved 2>/dev/null || echo 0)
echo "resumed $(date +%s.%N) $step $(cat $state.seen 2>/dev/null || echo 0)"
while [ $step -lt {steps} ] || [ -z "$SLURM_RESTART_COUNT" ]; do
    sleep {step_s}
    step=$((step + 1))
    echo $step > $state.new && mv $state.new $state.seen
    [ $((step % {interval})) = 0 ] && cp $state.seen $state.new && mv $state.new $state.saved
done
echo "finished $step"
"""
SETTINGS = {
    "partitions": {"main": {"mode": "enforce", "preemption": True}},
    "preemption": {
        "kind": "network",
        "lease_s": 1.0,
        "patience_s": 0.2,
        "restart_s": 0.0,
        "cooldown_s": 600.0,
        "budget_per_hour": 1000,
    },
}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    try:
        with Stack([NodeKind(name="n1", topology="bridges8")], settings=SETTINGS) as running:
            yield running
    except LocalSlurmUnavailable as error:
        missing(str(error))


@pytest.fixture
def roostd(stack: Stack) -> Iterator[Stack]:
    with mended_afterwards(stack):
        yield stack


def train(stack: Stack) -> str:
    """Start a job that takes the whole node and saves its step every half second."""
    script = _TRAIN.format(steps=STEPS, step_s=STEP_S, interval=INTERVAL_STEPS)
    job_id = stack.slurm.submit(*WHOLE_NODE, "--open-mode=append", script=script)
    stack.slurm.wait_for_state(job_id, "RUNNING")
    until(lambda: "resumed" in stack.slurm.output(job_id), "it counts")
    return job_id


def resumptions(stack: Stack, job_id: str) -> list[tuple[int, int]]:
    """(step that it continued from, last step it had done before) of each run of a job."""
    lines = [line.split() for line in stack.slurm.output(job_id).splitlines()]
    return [(int(words[2]), int(words[3])) for words in lines if words[0] == "resumed"]


def assert_lost_no_more_than_an_interval(stack: Stack, job_id: str) -> None:
    # Not the last line: slurmstepd may tell of the requeue after all that the job has written.
    until(lambda: "\nfinished " in stack.slurm.output(job_id), "it finishes")
    first, *later = resumptions(stack, job_id)
    assert first == (0, 0)
    for resumed_step, seen_step in later:
        assert 0 <= seen_step - resumed_step <= INTERVAL_STEPS


def test_a_preempted_job_continues_from_its_checkpoint(roostd: Stack) -> None:
    trainer = train(roostd)
    waiting = submit(roostd.slurm, "--gres=gpu:8", command="sleep 0.5")
    wait_until_over(roostd.slurm, [waiting, trainer], 100.0)
    assert len(resumptions(roostd, trainer)) == 2
    assert_lost_no_more_than_an_interval(roostd, trainer)
    found = outcomes(roostd.slurm, [waiting])[waiting]
    assert (found.state, found.gpus) == ("COMPLETED", {"n1": tuple(range(8))})
    stopped_s, again_s = (
        float(words) for words in re.findall(r"resumed (\S+)", roostd.slurm.output(trainer))
    )
    assert stopped_s < found.began_s < found.ended_s < again_s < found.ended_s + 60.0
    assert f"event=job_stopped job_id={trainer} for_job={waiting}" in roostd.log("roostd")


def test_a_refused_requeue_lets_the_victim_run_and_drops_the_plan(
    roostd: Stack, tmp_path: Path
) -> None:
    may_end = tmp_path / "may-end"
    trainer = submit(roostd.slurm, *WHOLE_NODE, "--no-requeue", command=until_exists(may_end))
    roostd.slurm.wait_for_state(trainer, "RUNNING")
    waiting = submit(roostd.slurm, "--gres=gpu:8")
    refused = f"event=job_not_stopped job_id={trainer}"
    until(lambda: refused in roostd.log("roostd"), "Slurm refuses")
    assert roostd.slurm.state(trainer) == "RUNNING"
    # Where a pin can be taken back, the job waits by one in Slurm, and not for a reason of Roost's.
    waits = (" roost:advice ", " was=")
    until(
        lambda: any(word in roostd.slurm.show_job(waiting) for word in waits),
        "the waiting job says what for",
    )
    may_end.touch()
    wait_until_over(roostd.slurm, [trainer, waiting], 100.0)
    assert roostd.slurm.output(trainer).count("began ") == 1
    found = outcomes(roostd.slurm, [trainer, waiting])
    assert found[trainer].state == found[waiting].state == "COMPLETED"


@pytest.mark.parametrize("point", ["before_requeue", "after_requeue", "after_return"])
def test_killed_in_a_preemption_it_loses_no_job(roostd: Stack, point: str) -> None:
    roostd.stop_roostd()
    roostd.start_roostd(ROOST_FAILPOINT=point)
    trainer = train(roostd)
    waiting = submit(roostd.slurm, "--gres=gpu:8", command="sleep 0.5")
    wait_for_death(roostd.roostd_pid)
    assert "Held" not in roostd.slurm.run("squeue", "-h", "-o", "%r"), "every job would start"
    roostd.stop_roostd(signal.SIGKILL)
    roostd.start_roostd()
    # Below the two minutes for which Slurm itself keeps a requeued job waiting.
    wait_until_over(roostd.slurm, [trainer, waiting], 80.0)
    assert outcomes(roostd.slurm, [waiting])[waiting].state == "COMPLETED"
    assert roostd.slurm.state(trainer) == "COMPLETED"
    assert_lost_no_more_than_an_interval(roostd, trainer)
