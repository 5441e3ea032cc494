"""What a crash test has found, for people and as JSON."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field


@dataclass
class Report:
    """What a run has found.

    Attributes:
        kills: by what was killed: "roostd", "roostd after_set", "slurmctld", ...
        job_count: submitted jobs.
        completed_count: jobs that ran to their end, on the right number of GPUs.
        launch_lost_count: jobs whose slurmd or slurmctld was ended between their start and their
            first process. Slurm shows them as running for minutes; the run cancels them.
        end_lost_count: jobs whose script has ended, and of whose end slurmctld does not know, since
            its slurmd or slurmctld was ended. The run cancels them too.
        launched_twice_count: nodes that slurmctld drained with "Duplicate jobid", since it launched
            a job again whose start it had forgotten when it was killed. It does that without Roost
            too: see `--unsaved`. It holds such a job. The run resumes the node and cancels the job.
        forgotten_count: jobs that slurmctld had not saved when it was killed, by `--unsaved`.
        without_gpus_count: jobs that Slurm 22.05 started without any GPU right after slurmctld was
            restarted: it does that to plain jobs, without roostd, too (JOB_GRES=gpu:g4:0).
        requeued_ahead_count: jobs whose launch was lost, and that Slurm requeued to begin two
            minutes later (the life of a credential). It does that without Roost too: `--control`.
        left_count: jobs that were not over long after the last kill.
        reconfigured_count: those of them that ran after `scontrol reconfigure`.
        stranded_gpu_count: GPUs that slurmctld counted as used on idle nodes before that; it does
            that without Roost too: tests/slurm_glue/text/test_gres_used.py.
        left_on: the state and the GPUs of each node before that, as Slurm showed them.
        problems: each broken promise, in words.
        logs: the folder with the logs of all parts; "" where there is no problem.
    """

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    job_count: int = 0
    completed_count: int = 0
    launch_lost_count: int = 0
    end_lost_count: int = 0
    launched_twice_count: int = 0
    forgotten_count: int = 0
    without_gpus_count: int = 0
    requeued_ahead_count: int = 0
    left_count: int = 0
    reconfigured_count: int = 0
    stranded_gpu_count: int = 0
    left_on: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    logs: str = ""

    def json(self) -> str:
        """Return the report as one JSON object."""
        return json.dumps(asdict(self) | {"kills": dict(self.kills)})

    def print(self) -> None:
        """Print the report for people."""
        print(f"{self.kills.total()} kills, seed {self.seed}:")
        for what, count in sorted(self.kills.items()):
            print(f"  {count:4} {what}")
        print(f"{self.completed_count} of {self.job_count} jobs completed as they asked.")
        if self.launch_lost_count:
            print(f"{self.launch_lost_count} launches were lost with slurmd or slurmctld.")
        if self.end_lost_count:
            print(f"The ends of {self.end_lost_count} jobs were lost with slurmd or slurmctld.")
        if self.launched_twice_count:
            print(f"slurmctld drained {self.launched_twice_count} nodes for jobs launched twice.")
        if self.forgotten_count:
            print(f"{self.forgotten_count} jobs were not saved when slurmctld was killed.")
        if self.without_gpus_count:
            print(f"{self.without_gpus_count} jobs got no GPU from slurmctld, as without Roost.")
        if self.requeued_ahead_count:
            print(f"Slurm requeued {self.requeued_ahead_count} jobs to begin two minutes later.")
        if self.left_count:
            ran = f"{self.reconfigured_count} of the {self.left_count} jobs left ran"
            stranded = f"{self.stranded_gpu_count} GPUs stranded"
            print(f"{ran} after `scontrol reconfigure`. Slurm's nodes were, {stranded}:")
            print("\n".join(f"  {node}" for node in self.left_on))
        for problem in self.problems:
            print(f"BROKEN: {problem}")
        if self.logs:
            print(f"The logs are in {self.logs}.")
