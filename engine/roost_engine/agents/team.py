"""The team: which agent has which job, and what an agent may offer it.

Every job has one agent. The agent offers it the agent's own nodes, so what two agents decide never
touches the same node, and it makes no difference which of them is asked first. A job that no single
agent's part could ever hold belongs to none: it borrows from several parts, in one step and all or
nothing, so two such jobs can never each hold a half that the other one needs.

A job that finds no capacity may be forwarded once to another agent, by the summaries of all agents
as they were before the first job moved. If it waits there too, or no other agent could start it,
it borrows as soon as all parts together could start it. So a job moves twice at most, and what is
free somewhere is not lost to it. Page: docs/graph.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from roost_engine.agents.split import Split
from roost_engine.agents.summary import Summary, could_start_together
from roost_engine.cluster.cluster import Cluster
from roost_engine.cluster.node_sets import EVERY_NODE, NodeSet
from roost_engine.domain.actions import Exclusions
from roost_engine.domain.model import JobId, JobSpec, Shape
from roost_engine.placement.candidates import Candidates
from roost_engine.placement.eligibility import RESERVED, Hint, usable_nodes
from roost_engine.policies.protocols import CandidatePolicy

BORROWS = -1  # instead of an agent: the job may have nodes of several parts
RESERVED_OR_ELSEWHERE = f"{RESERVED}, or of another agent"


class Team:
    """The agents of one engine.

    Attributes:
        agent_count: 2 or more.
        forwarded_count: jobs that went to another agent.
        visits: the agents in the order in which they are asked; it makes no difference.
    """

    def __init__(self, cluster: Cluster, agent_count: int) -> None:
        self.agent_count, self.forwarded_count = agent_count, 0
        self._cluster = cluster
        self._agent_of: dict[JobId, int] = {}
        self._forwarded: set[JobId] = set()
        self._waiting: list[dict[JobId, int]] = [{} for _ in range(agent_count)]  # GPUs asked for
        self.visits: Sequence[int] = range(agent_count)
        self._split: tuple[object, Split] | None = None
        self._homes_of: Split | None = None

    # -- whose a job is ---------------------------------------------------------------------

    def agent_of(self, job: JobSpec) -> int:
        """Return the agent of a job; a job that is new gets the one with the best summary.

        Of the agents that could ever hold the job: first those that could start it now, then those
        with the least backlog, then the lowest number. BORROWS if there is none.
        """
        found = self._agent_of.get(job.job_id)
        if found is None:
            able = [agent for agent in range(self.agent_count) if self._could_ever(agent, job)]
            found = self._best(self.summaries(), able, job.shapes) if able else BORROWS
            self._agent_of[job.job_id] = found
        return found

    def note_waiting(self, job: JobSpec) -> int:
        """Note that a job is in the queue; returns its agent."""
        agent = self.agent_of(job)
        if agent != BORROWS:
            self._waiting[agent][job.job_id] = job.gpu_count
        return agent

    def note_left(self, job_id: JobId) -> None:
        """Note that a job has left the queue; it keeps its agent until `forget`."""
        agent = self._agent_of.get(job_id, BORROWS)
        if agent != BORROWS:
            self._waiting[agent].pop(job_id, None)

    def forget(self, job_id: JobId) -> None:
        """Forget a job that has ended or does not wait for Roost any more."""
        self.note_left(job_id)
        self._agent_of.pop(job_id, None)
        self._forwarded.discard(job_id)

    def summaries(self) -> list[Summary]:
        """Return what each agent tells the others."""
        parts = self.split().parts
        return [
            Summary.of(self._cluster, nodes, sum(waiting.values()))
            for nodes, waiting in zip(parts, self._waiting, strict=True)
        ]

    def split(self) -> Split:
        """Return the split of the cluster as it is now."""
        cluster = self._cluster
        sizes = cluster.gpu_count[: len(cluster)].tobytes()
        mark = (sizes, tuple(cluster.rack_nodes))
        if self._split is None or self._split[0] != mark:
            self._split = mark, Split.of(cluster, self.agent_count)
        return self._split[1]

    def nodes_for(self, job: JobSpec) -> NodeSet:
        """Return the nodes that a job may have."""
        return self.split().nodes_of(self.agent_of(job))

    def _could_ever(self, agent: int, job: JobSpec) -> bool:
        """Whether an idle part could hold some shape of a job, by the nodes' sizes and labels."""
        mine = self.split().parts[agent]
        for shape in job.shapes:
            nodes, required = usable_nodes(self._cluster, job, shape)
            if required is None or required & ~mine:
                continue
            if (nodes & mine).bit_count() >= shape.node_count:
                return True
        return False

    def _best(
        self, summaries: Sequence[Summary], able: Iterable[int], shapes: tuple[Shape, ...]
    ) -> int:
        return min(
            able,
            key=lambda agent: (
                not summaries[agent].could_start(shapes),
                summaries[agent].backlog,
                agent,
            ),
        )

    # -- forwarding -------------------------------------------------------------------------

    def forwards(self, blocked: Sequence[JobSpec]) -> list[JobSpec]:
        """Choose which jobs without capacity go to another agent, and let them.

        A job goes to another agent at most once, and only to one whose summary says that the job
        could start there now. First every agent, in the order of `visits`, says which of its jobs
        could go where, by the same summaries. Then the jobs move in the order of the queue, and
        each one that moves is counted where it goes. So the order of the visits makes no
        difference. A job for which there is no such agent borrows, if all parts together could
        start it.

        Args:
            blocked: the first job of each group without capacity, in order.

        Returns:
            The jobs that have another agent now; the caller queues them again.
        """
        by_agent: dict[int, list[tuple[int, JobSpec]]] = {}
        for place, job in enumerate(blocked):
            by_agent.setdefault(self.agent_of(job), []).append((place, job))
        by_agent.pop(BORROWS, None)
        if not by_agent:
            return []
        summaries, wishes = self.summaries(), list[tuple[int, JobSpec, list[int]]]()
        for agent in self.visits:
            for place, job in by_agent.get(agent, ()):
                able = self._others_able(summaries, agent, job)
                others = [*summaries[:agent], *summaries[agent + 1 :]]
                if able or could_start_together(summaries[agent], others, job.shapes):
                    wishes.append((place, job, able))
        moved: list[JobSpec] = []
        for _, job, able in sorted(wishes, key=lambda wish: wish[0]):
            left = [agent for agent in able if summaries[agent].could_start(job.shapes)]
            if left:
                chosen = self._best(summaries, left, job.shapes)
                summaries[chosen].promise(job.shapes[0])
                self._move(job, chosen)
                self._forwarded.add(job.job_id)
                self.forwarded_count += 1
                moved.append(job)
            elif not able:
                self._move(job, BORROWS)
                moved.append(job)
        return moved

    def _others_able(self, summaries: Sequence[Summary], home: int, job: JobSpec) -> list[int]:
        if job.job_id in self._forwarded:
            return []
        return [
            agent
            for agent, summary in enumerate(summaries)
            if agent != home and summary.could_start(job.shapes) and self._could_ever(agent, job)
        ]

    def _move(self, job: JobSpec, agent: int) -> None:
        self.note_left(job.job_id)
        self._agent_of[job.job_id] = agent

    # -- changes of the cluster -------------------------------------------------------------

    @property
    def is_split_anew(self) -> bool:
        """Whether nodes or racks have changed since `find_homes` was last called."""
        return self.split() is not self._homes_of

    def find_homes(self, waiting: Iterable[JobSpec]) -> list[JobSpec]:
        """Give waiting jobs another agent where their own could no longer ever hold them.

        Jobs that borrow get an agent if one could hold them now.

        Returns:
            The jobs that have another agent now; the caller queues them again.
        """
        self._homes_of = self.split()
        moved: list[JobSpec] = []
        for job in waiting:
            home = self.agent_of(job)
            if home == BORROWS or not self._could_ever(home, job):
                self.note_left(job.job_id)
                del self._agent_of[job.job_id]
                if self.agent_of(job) != home:
                    moved.append(job)
        return moved


class AgentCandidates:
    """What a job's agent may offer it. See policies.CandidatePolicy.

    Args:
        inner: proposes placements.
        team: the agents.
    """

    def __init__(self, inner: CandidatePolicy, team: Team) -> None:
        self._inner, self._team = inner, team

    def propose(self, cluster: Cluster, job: JobSpec, reserved: NodeSet, at_s: float) -> Candidates:
        """See CandidatePolicy: the nodes of other agents are as if reserved."""
        mine = self._team.nodes_for(job)
        if mine == EVERY_NODE:
            return self._inner.propose(cluster, job, reserved, at_s)
        every = (1 << len(cluster)) - 1
        found = self._inner.propose(cluster, job, reserved | every & ~mine, at_s)
        found.hints = tuple(_within(found.hints, mine))
        found.rename_exclusions(_in_other_words)
        return found

    def hints(self, cluster: Cluster, job: JobSpec, nodes: NodeSet) -> Sequence[Hint]:
        """See CandidatePolicy."""
        mine = self._team.nodes_for(job)
        if not nodes & mine:
            return ()
        return list(_within(self._inner.hints(cluster, job, nodes & mine), mine))


def _within(hints: Iterable[Hint], mine: NodeSet) -> Iterable[Hint]:
    """Yield the hints as they are for some nodes; those without enough nodes are left out."""
    for hint in hints:
        nodes = hint.nodes & mine
        if nodes.bit_count() >= hint.wanted:
            yield replace(hint, nodes=nodes)


def _in_other_words(exclusions: Exclusions) -> Exclusions:
    return tuple(
        (RESERVED_OR_ELSEWHERE if reason == RESERVED else reason, count)
        for reason, count in exclusions
    )
