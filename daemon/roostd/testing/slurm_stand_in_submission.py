"""A submission to the in-memory Slurm, and the jobs that it makes."""

from collections.abc import Iterator, Sequence
from typing import TypedDict

from roost_engine.domain.model import JobId
from roost_slurm.text.stamp import Stamp
from roostd.testing.slurm_stand_in_job import StandInJob


class Submission(TypedDict, total=False):
    """A job, or an array of them, by sbatch's options; an absent key is an absent option.

    Keys:
        gpus: --gpus.
        gpus_per_node: --gres=gpu:N.
        gpus_per_task: --gpus-per-task.
        nodes: -N, fewest and most; 1 and any number when absent.
        tasks: -n.
        cpus_per_task: -c.
        memory_per_node_bytes: --mem.
        partition: -p; "main" when absent.
        user_id: of the submitter; 1000 when absent.
        node_list: -w.
        exclude: -x.
        begin_epoch_s: --begin.
        array: the tasks of --array.
        task_limit: its %N.
        run_s: how long the job runs; until end() when absent.
        name: -J.
        comment: --comment.
        qos: -q.
        account: -A.
        licenses: -L.
        no_requeue: --no-requeue.
    """

    gpus: int | None
    gpus_per_node: int | None
    gpus_per_task: int | None
    nodes: tuple[int, int | None]
    tasks: int | None
    cpus_per_task: int
    memory_per_node_bytes: int | None
    partition: str
    user_id: int
    node_list: str
    exclude: str
    begin_epoch_s: float | None
    array: Sequence[int]
    task_limit: int | None
    run_s: float | None
    name: str
    comment: str
    qos: str
    account: str
    licenses: str
    no_requeue: bool


def jobs_of(
    asked: Submission, first_number: int, now_s: float, gres_prefix: str, lease_s: int | None
) -> Iterator[StandInJob]:
    """Yield the job, or each task of the array, with job_submit.lua's lease on GPU jobs.

    Args:
        asked: what was submitted.
        first_number: of the first record; the others follow.
        now_s: the wall clock.
        gres_prefix: with which this Slurm release writes a GPU request: "gres:" or "gres/".
        lease_s: the lease that job_submit.lua gives a GPU job; None: roostd's heartbeat is stale.
    """
    tres = _tres(asked, gres_prefix)
    begin_s, admin_comment = _lease(asked.get("begin_epoch_s"), now_s, lease_s if tres else None)
    tasks = asked.get("array", ())
    nodes = asked.get("nodes", (1, None))
    for number, task in enumerate(tasks or (None,), start=first_number):
        yield StandInJob(
            number=number,
            job_id=JobId(str(number) if task is None else f"{first_number}_{task}"),
            array_number=first_number if tasks else None,
            user_id=asked.get("user_id", 1000),
            partition=asked.get("partition", "main"),
            tres=dict(tres),
            node_range=nodes,
            task_count=asked.get("tasks") or nodes[0],
            cpus_per_task=asked.get("cpus_per_task", 1),
            memory_per_node_bytes=asked.get("memory_per_node_bytes"),
            excluded_nodes=asked.get("exclude", ""),
            required_nodes=asked.get("node_list", ""),
            run_s=asked.get("run_s"),
            submit_epoch_s=now_s,
            begin_epoch_s=begin_s,
            admin_comment=admin_comment,
            task_limit=asked.get("task_limit"),
            name=asked.get("name", ""),
            comment=asked.get("comment", ""),
            qos=asked.get("qos", ""),
            account=asked.get("account", ""),
            licenses=asked.get("licenses", ""),
            refuses_requeue=asked.get("no_requeue", False),
        )


def _tres(asked: Submission, gres_prefix: str) -> dict[str, str]:
    counts = {
        "TresPerJob": asked.get("gpus"),
        "TresPerNode": asked.get("gpus_per_node"),
        "TresPerTask": asked.get("gpus_per_task"),
    }
    return {name: f"{gres_prefix}gpu:{count}" for name, count in counts.items() if count}


def _lease(begin_epoch_s: float | None, now_s: float, lease_s: int | None) -> tuple[float, str]:
    """Return when the job may begin, and its admin comment."""
    begin_s = begin_epoch_s if begin_epoch_s is not None else now_s
    if lease_s is None:
        return begin_s, ""
    stamp = Stamp(begin_epoch_s=None if begin_epoch_s is None else int(begin_epoch_s))
    return max(begin_s, now_s + lease_s), str(stamp)
