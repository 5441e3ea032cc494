"""The running jobs that Slurm itself would stop for a waiting job."""

from math import inf

from roost_engine.cluster.node_sets import NodeSet, node_set
from roost_engine.domain.model import JobId, JobSpec
from roost_engine.job_record import JobState
from roost_engine.table.job_table import JobTable


def slurm_victims(
    table: JobTable, job: JobSpec, taken: NodeSet, at_s: float
) -> tuple[list[JobId], float]:
    """Return the jobs that Slurm may stop for a job, and when it may stop more of them.

    Args:
        table: the jobs and the cluster.
        job: the waiting job.
        taken: nodes that Slurm clears for other jobs.
        at_s: engine time; inf: also those that Slurm still spares.

    Returns:
        The jobs that it may stop now, the youngest first; the engine time from which it may stop
        another one, inf where it spares none.
    """
    found, more_s = list[tuple[float, JobId]](), inf
    for known in (table.jobs, table.observed):
        for job_id, one in known.items():
            if one.preempt_class not in job.preempts or one.state is not JobState.RUNNING:
                continue
            if _nodes_of(table, job_id) & taken:
                continue
            if one.spared_until_s > at_s:
                more_s = min(more_s, one.spared_until_s)
            else:
                found.append((one.started_s or 0.0, job_id))
    return [job_id for _, job_id in sorted(found, reverse=True)], more_s


def _nodes_of(table: JobTable, job_id: JobId) -> NodeSet:
    index_of = table.cluster.index_of
    shares = table.cluster.shares(job_id)
    return node_set(index_of[share.node] for share in shares if share.node in index_of)
