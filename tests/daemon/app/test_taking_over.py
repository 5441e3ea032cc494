"""A daemon that starts takes over the pins that its dead self left in Slurm."""

from pathlib import Path

import pytest
from tests.daemon.running import config, running

from roost_engine.domain.model import JobId
from roost_engine.testing import builders
from roost_slurm.text.squeue import SlurmJobState
from roost_slurm.text.versions import SlurmVersion
from roostd.testing.slurm_stand_in import SlurmStandIn

TRIXIE, BOOKWORM = SlurmVersion(24, 11, 5), SlurmVersion(22, 5, 8)
WAS = "TresPerNode:gres/gpu:2"


class Left:
    """A Slurm whose two nodes are full, and in which a daemon died with jobs pinned to n2."""

    def __init__(self, version: SlurmVersion = TRIXIE) -> None:
        nodes = [builders.node("n1"), builders.node("n2")]
        self.slurm = SlurmStandIn(nodes, lease_s=None, version=version)
        self.holders = [self.slurm.submit(gpus_per_node=8, node_list=n)[0] for n in ("n1", "n2")]
        self.slurm.lease_s = 60

    def pinned(self, **asked: str) -> JobId:
        """A job with a standing pin."""
        (job_id,) = self.slurm.submit(gpus_per_node=2, **asked)  # type: ignore[arg-type]
        self.slurm.update(
            job_id,
            TresPerNode="",
            TresPerJob="gres/gpu:g4:1,gres/gpu:g5:1",
            ReqNodeList="n2",
            AdminComment=f"roost:lease was={WAS}",
            StartTime="now",
        )
        return job_id

    def updates(self, job_id: JobId) -> list[tuple[str, ...]]:
        return [
            argv[3:]
            for argv in self.slurm.argvs
            if f"jobid={job_id}" in argv and not argv[3].startswith("AdminComment=")
        ]

    def is_typed(self, job_id: JobId) -> bool:
        return ":g" in "".join(self.slurm._jobs[job_id].tres.values())


async def test_the_next_job_stays_eligible_and_the_others_are_leased_again(tmp_path: Path) -> None:
    left = Left()
    first, second = left.pinned(), left.pinned()
    async with running(left.slurm, config(tmp_path)) as daemon:
        await daemon.until(lambda: left.slurm.lease_left_s(second) > 30, "the second is leased")
        await daemon.until(lambda: bool(left.updates(first)), "the first is pinned again")
        assert not left.is_typed(second)
        assert left.is_typed(first)
        assert left.slurm.lease_left_s(first) <= 0
        words = [word for words in left.updates(first) for word in words]
        assert not [word for word in words if word.startswith("StartTime")]
        for holder in left.holders:
            left.slurm.end(holder)
        await daemon.until_running(first, second)
        assert await daemon.allocated(first) == daemon.planned(first)
        assert await daemon.allocated(second) == daemon.planned(second)


async def test_a_job_that_is_held_meanwhile_keeps_no_pin_either(tmp_path: Path) -> None:
    left = Left()
    head, held = left.pinned(), left.pinned()
    left.slurm.hold(held)
    async with running(left.slurm, config(tmp_path)) as daemon:
        await daemon.until(lambda: bool(left.updates(head)), "the first is pinned again")
        left.slurm.hold(held, release=True)
        await daemon.until(lambda: not left.is_typed(held), "it has its request back")
        assert left.slurm.lease_left_s(held) > 30
        assert left.is_typed(head)


@pytest.mark.parametrize("mode", ["shadow", "off"])
async def test_a_partition_that_is_enforced_no_more_keeps_no_pins(
    tmp_path: Path, mode: str
) -> None:
    left = Left()
    job_id = left.pinned()
    async with running(left.slurm, config(tmp_path, mode=mode)) as daemon:
        await daemon.until(lambda: not left.is_typed(job_id), "it has its request back")
        await daemon.until(
            lambda: left.slurm.admin_comment(job_id) == "roost:let-go", "it is released"
        )
        left.slurm.end(left.holders[0])  # not the node that it was pinned to
        assert left.slurm.state(job_id) is SlurmJobState.RUNNING


async def test_a_release_that_takes_back_no_types_is_left_to_the_leases(tmp_path: Path) -> None:
    left = Left(BOOKWORM)
    job_id = left.pinned()
    async with running(left.slurm, config(tmp_path)) as daemon:
        await daemon.until(lambda: left.slurm.lease_left_s(job_id) > 30, "it is leased")
        assert left.is_typed(job_id)
        for holder in left.holders:
            left.slurm.end(holder)
        await daemon.until_running(job_id)
        assert (await daemon.allocated(job_id)).popitem()[1] == (4, 5)
