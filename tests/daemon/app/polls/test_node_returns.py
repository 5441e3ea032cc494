"""A closed node that takes jobs again is noticed while jobs wait that could use it."""

from pathlib import Path

import pytest
from tests.daemon.app.watched_site import Site

from roost_engine.domain.model import JobId, NodeName, NodeSpec
from roost_engine.testing.builders import node
from roostd.app.polls.node_returns import NodeReturns
from roostd.app.polls.seen_nodes import SeenNodes
from roostd.slurm.port import SlurmNode
from roostd.testing.slurm_faults import Fault

N1, N2 = NodeName("n1"), NodeName("n2")


class Returns:
    """The subject beside a site of n1, on which a job of 8 GPUs leaves no capacity, and n2."""

    def __init__(self, site: Site) -> None:
        self.site, self.nodes, self.read_count = site, SeenNodes(), 0
        self.subject = NodeReturns(site.slurm, site.state, self.nodes, self._count)

    def _count(self) -> None:
        self.read_count += 1

    def show(self, *specs: NodeSpec) -> None:
        """Have Slurm change nodes, and the last reading show them."""
        for spec in specs:
            self.site.slurm.set_node(spec)
        shown = (
            SlurmNode(
                spec=spec,
                state="idle" if spec.usable else "drained",
                reason="",
                cpu_allocated_count=0,
                memory_allocated_bytes=0,
            )
            for spec in specs
        )
        self.nodes.apply(tuple(shown), 1.0)

    async def wait(self, **asked: int) -> JobId:
        (job_id,) = self.site.slurm.submit(gpus_per_node=asked.get("gpus_per_node", 8))
        await self.site.look()
        return job_id


@pytest.fixture
async def returns(tmp_path: Path) -> Returns:
    site = Site(tmp_path)
    await site.look()
    found = Returns(site)
    found.show(node("n1"), node("n2", usable=False))
    running = await found.wait()
    site.slurm.update(running, StartTime="now")
    await site.look()
    return found


async def test_no_node_is_asked_for_while_no_job_waits(returns: Returns) -> None:
    assert returns.subject.awaited() == []


async def test_closed_nodes_are_asked_for_while_a_job_of_their_partition_waits(
    returns: Returns,
) -> None:
    await returns.wait()
    assert returns.subject.awaited() == [N2]

    returns.show(node("n1"), node("n2", usable=False, partitions=("other",)))
    assert returns.subject.awaited() == []


async def test_open_nodes_are_not_asked_for(returns: Returns) -> None:
    await returns.wait()
    returns.show(node("n1"), node("n2"))
    assert returns.subject.awaited() == []


async def test_a_node_that_takes_jobs_again_has_the_nodes_read(returns: Returns) -> None:
    await returns.wait()
    await returns.subject.ask()
    assert returns.read_count == 0

    returns.site.slurm.set_node(node("n2"))
    await returns.subject.ask()
    assert returns.read_count == 1


async def test_the_same_answer_has_the_nodes_read_once(returns: Returns) -> None:
    """Where the reading does not agree: of a node that has not registered."""
    await returns.wait()
    returns.site.slurm.set_node(node("n2"))
    await returns.subject.ask()
    await returns.subject.ask()
    assert returns.read_count == 1


async def test_no_answer_is_no_return(returns: Returns) -> None:
    await returns.wait()
    returns.site.slurm.set_node(node("n2"))
    returns.site.slurm.inject("node_states", Fault.LOST_BEFORE)
    await returns.subject.ask()
    assert returns.read_count == 0


async def test_nothing_is_asked_while_slurm_does_not_answer(returns: Returns) -> None:
    await returns.wait()
    returns.site.state.slurm_fault = "lost"
    assert returns.subject.awaited() == []
