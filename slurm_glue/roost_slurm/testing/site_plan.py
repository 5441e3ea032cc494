"""The parts of a cluster's configuration that real sites set and small tests do without."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingPlan:
    """A slurmdbd beside the cluster.

    A job runs only for a user who has an account (LocalAccounting.add_user), as far as `enforce`
    says so.
    """

    enforce: tuple[str, ...] = ("associations", "limits", "qos")
    tres: tuple[str, ...] = ("gres/gpu",)

    def lines(self, port: int, munge_socket: Path) -> list[str]:
        """Lines of slurm.conf for a slurmdbd on this port."""
        return [
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={port}",
            f"AccountingStoragePass={munge_socket}",
            f"AccountingStorageTRES={','.join(self.tres)}",
            *_line("AccountingStorageEnforce", self.enforce),
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityPlan:
    """The multifactor priority; its age factor counts only beside an AccountingPlan."""

    flags: tuple[str, ...] = ()
    max_age_s: int = 600  # after which a job's age factor is 1
    age_weight: int = 60_000
    qos_weight: int = 10_000
    partition_weight: int = 0
    tres_weights: str = ""  # as in PriorityWeightTRES: "gres/gpu=1000"

    def lines(self) -> list[str]:
        """Lines of slurm.conf."""
        return [
            "PriorityType=priority/multifactor",
            *_line("PriorityFlags", self.flags),
            f"PriorityMaxAge=0-00:00:{self.max_age_s}",
            f"PriorityWeightAge={self.age_weight}",
            f"PriorityWeightQOS={self.qos_weight}",
            f"PriorityWeightPartition={self.partition_weight}",
            *_line("PriorityWeightTRES", filter(None, [self.tres_weights])),
            "PriorityCalcPeriod=1",  # minutes, the least; also the least age that shows
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptPlan:
    """Slurm's own preemption."""

    kind: str  # "qos" or "partition_prio"
    mode: str = "REQUEUE"

    def lines(self) -> list[str]:
        """Lines of slurm.conf."""
        return [f"PreemptType=preempt/{self.kind}", f"PreemptMode={self.mode}"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerSavingPlan:
    """Nodes that Slurm suspends when they are idle.

    The programs write down what they are asked for (LocalSlurm.power_requests): they run as
    SlurmUser, which cannot start a slurmd.
    """

    suspend_after_s: int = 10
    suspend_timeout_s: int = 2
    resume_timeout_s: int = 60
    always_on: tuple[str, ...] = ()  # nodes

    def lines(self, suspend: Path, resume: Path) -> list[str]:
        """Lines of slurm.conf for these two programs."""
        return [
            f"SuspendProgram={suspend}",
            f"ResumeProgram={resume}",
            f"SuspendTime={self.suspend_after_s}",
            f"SuspendTimeout={self.suspend_timeout_s}",
            f"ResumeTimeout={self.resume_timeout_s}",
            "SuspendRate=0",  # no limit
            "ResumeRate=0",
            *_line("SuspendExcNodes", self.always_on),
        ]


def _line(key: str, values: Iterable[str]) -> list[str]:
    """A line, or none where there is nothing to say: an empty value is an error to Slurm."""
    joined = ",".join(values)
    return [f"{key}={joined}"] if joined else []
