"""The limits of job arrays: how many more tasks of each may start (sbatch --array=1-100%4)."""

from collections import defaultdict

from roostd.slurm.port import QueueSnapshot


class ArrayLimits:
    """How many more tasks of each array with a limit may start.

    Args:
        snapshot: of the queue; the tasks that hold GPUs in it are counted.
    """

    def __init__(self, snapshot: QueueSnapshot) -> None:
        limits: dict[int | None, int] = {}
        holding: defaultdict[int | None, int] = defaultdict(int)
        for job in snapshot.jobs:
            detail = snapshot.details.get(job.number)
            holding[job.array_number] += job.is_holding
            if not job.is_pending or job.array_number is None or detail is None:
                continue  # the details of a running task are of its start; the limit may be newer
            if detail.task_limit is not None:
                limits[job.array_number] = detail.task_limit
        self._left = {array: limit - holding[array] for array, limit in limits.items()}

    def take(self, array_number: int | None) -> bool:
        """Return whether one more task of an array may start; if so, count it as started."""
        left = self._left.get(array_number)
        if left is None:
            return True
        if left <= 0:
            return False
        self._left[array_number] = left - 1
        return True
