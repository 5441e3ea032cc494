"""Whether a site's slurm.conf has what Roost needs and what it recommends. Pure: no I/O.

Reads `scontrol show config`. docs/slurm.md says what happens without each setting.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from roost_slurm.text.scontrol import config_row

_NO_TIMEOUT = frozenset({"0", "65534", "4294967294"})
_NUMBER = re.compile(r"\d{1,20}", re.ASCII)


class Level(StrEnum):
    """How much a setting matters."""

    NEEDED = "needed"  # Roost places no job, or not where it says
    RECOMMENDED = "recommended"


@dataclass(frozen=True, slots=True)
class Finding:
    """One setting that is not as it should be.

    Attributes:
        level: how much it matters.
        problem: what is missing, and what follows.
        cure: what to write into slurm.conf, or to do.
    """

    level: Level
    problem: str
    cure: str

    def __str__(self) -> str:
        return f"{self.level}: {self.problem}; cure: {self.cure}"


class NotAConfig(ValueError):
    """A text is not what `scontrol show config` prints."""


def check(text: str, *, uses_models: bool = False) -> tuple[Finding, ...]:
    """Return what is not as it should be, the needed settings first.

    Args:
        text: what `scontrol show config` prints.
        uses_models: users name GPU models in requests: `--gpus=h100:2`.

    Raises:
        NotAConfig: the text has no settings.
    """
    row = config_row(text)
    if "SelectType" not in row or "SchedulerParameters" not in row:
        raise NotAConfig("no output of `scontrol show config`")
    parts = (_needed, _scheduler, _priority, _hooks)
    models = _models(row) if uses_models else ()
    return (*(finding for part in parts for finding in part(row)), *models)


def _needed(row: Mapping[str, str]) -> Iterator[Finding]:
    if "cons_tres" not in row["SelectType"]:
        yield Finding(
            Level.NEEDED,
            f"SelectType is {row['SelectType']}: requests for typed GPUs need cons_tres",
            "SelectType=select/cons_tres",
        )
    if "gpu" not in _words(row, "GresTypes"):
        yield Finding(
            Level.NEEDED, "GresTypes has no gpu: Slurm allocates no GPUs", "Include roost.conf"
        )
    if "lua" not in {word.rpartition("/")[2] for word in _words(row, "JobSubmitPlugins")}:
        yield Finding(
            Level.NEEDED,
            "JobSubmitPlugins has no lua: no job gets a lease, so Roost places none",
            "JobSubmitPlugins=lua, with job_submit.lua beside slurm.conf",
        )


def _scheduler(row: Mapping[str, str]) -> Iterator[Finding]:
    parameters = _words(row, "SchedulerParameters")
    values = dict(word.partition("=")[::2] for word in parameters)
    if "disable_job_shrink" not in parameters:
        yield _advice(
            "a pin that races with the start of a job of several nodes can take nodes from it",
            "add disable_job_shrink to SchedulerParameters",
        )
    if "bf_job_part_count_reserve" not in values:
        yield _advice(
            "each pinned job that waits closes its whole node to lower-priority jobs",
            "add bf_job_part_count_reserve=1 to SchedulerParameters",
        )
    if values.get("batch_sched_delay") != "0":
        yield _advice(
            "each batch job starts up to 3 s later",
            "add batch_sched_delay=0 to SchedulerParameters",
        )


def _priority(row: Mapping[str, str]) -> Iterator[Finding]:
    # 24.11 and later show the weight for every priority plug-in; without weight age is not used.
    weight = _NUMBER.match(row.get("PriorityWeightAge", "0"))
    uses_age = "multifactor" in row.get("PriorityType", "") and weight and int(weight[0])
    if uses_age and "ACCRUE_ALWAYS" not in _words(row, "PriorityFlags"):
        yield _advice(
            "jobs under a lease gain no age, so jobs without Roost overtake them",
            "add ACCRUE_ALWAYS to PriorityFlags",
        )


def _hooks(row: Mapping[str, str]) -> Iterator[Finding]:
    for key, effect in (
        ("PrologSlurmctld", "roostd sees starts only when it polls"),
        ("EpilogSlurmctld", "roostd sees ends only when it polls, so GPUs stay idle meanwhile"),
        ("Prolog", "probes do not learn what Slurm allocated"),
        ("Epilog", "the job map keeps jobs that have ended"),
        ("TaskProlog", "ranks are not ordered by links, and srun in a batch job refuses models"),
    ):
        # Since 23.11 there may be several: Prolog[0], Prolog[1]; without any the key is missing.
        if not any(name.partition("[")[0] == key and _is_set(row[name]) for name in row):
            yield _advice(f"no {key}: {effect}", f"{key}= the script that roost.conf names")
    if "Alloc" not in _words(row, "PrologFlags"):
        yield _advice(
            "without PrologFlags=Alloc the prolog runs at a job's first step, not at its start",
            "add Alloc to PrologFlags",
        )
    if row.get("PrologEpilogTimeout", "0").partition(" ")[0] in _NO_TIMEOUT:
        yield _advice("a prolog that hangs holds its job for ever", "PrologEpilogTimeout=30")


def _models(row: Mapping[str, str]) -> Iterator[Finding]:
    plugins = {word.rpartition("/")[2] for word in _words(row, "CliFilterPlugins")}
    if "lua" not in plugins:
        yield _advice(
            "no CliFilterPlugins=cli_filter/lua: srun refuses models, as in --gpus=h100:2",
            "install cli_filter.lua beside slurm.conf on every machine, then set it",
        )


def _advice(problem: str, cure: str) -> Finding:
    return Finding(Level.RECOMMENDED, problem, cure)


def _words(row: Mapping[str, str], key: str) -> frozenset[str]:
    value = row.get(key, "")
    return frozenset(value.split(",")) if _is_set(value) else frozenset()


def _is_set(value: str) -> bool:
    return value not in ("", "(null)")
