"""Jobs under a site's rules, and how long GPUs are idle that the waiting ones could use."""

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.e2e.site.bed import CPU_COUNT, REQUEUE_DELAY_S

from roost_demo.stack import Stack
from roost_slurm.text.hostlist import expand

NODE_NAMES = ("n1", "n2", "n3")
GPUS = 8  # of each node
LIMIT = 4  # GPUs that a user may have in the QoS "four"; in the QoS "one" it is one job
MINUTES_TO_WINDOW = 2  # a longer job would run into the reservations of these tests


@dataclass(frozen=True)
class Job:
    """One job; its rules are those that `Run` knows."""

    user: str
    node_count: int
    gpus_per_node: int
    run_s: int
    qos: str = ""
    takes_licence: bool = False
    partition: str = "main"
    cpu_count: int = 1  # on each node
    minutes: int = 1  # time limit
    node: str = ""  # where alone it may run

    @property
    def gpu_count(self) -> int:
        return self.node_count * self.gpus_per_node

    def options(self) -> list[str]:
        gpus = [f"--gres=gpu:{self.gpus_per_node}"] if self.gpus_per_node else []
        where = [f"-N{self.node_count}", "-p", self.partition, f"-c{self.cpu_count}"]
        where += ["-w", self.node] if self.node else []
        qos = ["-q", self.qos] if self.qos else []
        licence = ["-L", "ansys"] if self.takes_licence else []
        return [*where, *gpus, *qos, *licence, "-t", str(self.minutes)]


@dataclass
class Run:
    """The jobs of one run on one cluster. There is one licence.

    Attributes:
        reserved: nodes with a reservation to come.
        idle_gpu_s: GPU-seconds that waiting jobs could have used and that were idle.
        started_gpu_count: of all jobs that started, as often as they did.
        running, waiting: the jobs at the last poll, in Slurm's order.
        startable: the jobs that wait though they could run, at the last poll.
    """

    stack: Stack
    reserved: frozenset[str] = frozenset()
    idle_gpu_s: float = 0.0
    started_gpu_count: int = 0
    running: dict[str, Job] = field(default_factory=dict)
    waiting: dict[str, Job] = field(default_factory=dict)
    startable: list[str] = field(default_factory=list)
    _jobs: dict[str, Job] = field(default_factory=dict)
    _waits_until_s: dict[str, float] = field(default_factory=dict)
    _looked_s: float | None = None

    def submit(self, jobs: Iterable[Job]) -> list[str]:
        """Submit jobs in order; return their ids."""
        job_ids = []
        for job in jobs:
            script = f"sleep {job.run_s}"
            job_ids.append(self.stack.slurm.submit(*job.options(), script=script, user=job.user))
            self._jobs[job_ids[-1]] = job
        return job_ids

    def look(self) -> None:
        """Look at the queue, and count what was idle since the last poll."""
        lines = self.stack.slurm.run("squeue", "-h", "-o", "%A|%t|%N").splitlines()
        now_s = time.monotonic()
        since_s = 0.0 if self._looked_s is None else now_s - self._looked_s
        free, used, licence_count = _Free(self.reserved), Counter[tuple[str, str]](), 0
        running, self.waiting = dict[str, Job](), {}
        for job_id, state, nodes in (line.split("|") for line in lines):
            job = self._jobs[job_id]
            if state == "PD":
                if job_id in self.running:  # Slurm starts it again after a while
                    self._waits_until_s[job_id] = now_s + REQUEUE_DELAY_S
                self.waiting[job_id] = job
                continue
            running[job_id] = job
            free.take(job, nodes)
            used[job.user, job.qos] += _counted(job)
            licence_count += job.takes_licence
        started = (job for job_id, job in running.items() if job_id not in self.running)
        self.started_gpu_count += sum(job.gpu_count for job in started)
        self.startable = []
        for job_id, job in self.waiting.items():
            is_limited = used[job.user, job.qos] + _counted(job) > LIMIT
            if is_limited or (job.takes_licence and licence_count):
                continue
            if self._waits_until_s.get(job_id, 0.0) > now_s or not free.take_anywhere(job):
                continue
            self.startable.append(job_id)
            used[job.user, job.qos] += _counted(job)
            licence_count += job.takes_licence
        self.idle_gpu_s += since_s * sum(self.waiting[one].gpu_count for one in self.startable)
        self.running, self._looked_s = running, now_s


def _counted(job: Job) -> int:
    """What a job counts of LIMIT."""
    return {"four": job.gpu_count, "one": LIMIT}.get(job.qos, 0)


class _Free:
    """What is free on each node, sleeping ones included: Slurm wakes them for any job."""

    def __init__(self, reserved: frozenset[str]) -> None:
        self._reserved = reserved
        self._gpus = Counter(dict.fromkeys(NODE_NAMES, GPUS))
        self._cpus = Counter(dict.fromkeys(NODE_NAMES, CPU_COUNT))

    def take(self, job: Job, nodes: str) -> None:
        for node in expand(nodes):
            self._gpus[node] -= job.gpus_per_node
            self._cpus[node] -= job.cpu_count

    def take_anywhere(self, job: Job) -> bool:
        """Take what a job needs, if it fits."""
        fitting = [
            node
            for node, gpu_count in self._gpus.items()
            if gpu_count >= job.gpus_per_node and self._cpus[node] >= job.cpu_count
            if node not in self._reserved or job.minutes <= MINUTES_TO_WINDOW
            if job.node in ("", node)
        ]
        if len(fitting) < job.node_count:
            return False
        for node in fitting[: job.node_count]:
            self.take(job, node)
        return True
