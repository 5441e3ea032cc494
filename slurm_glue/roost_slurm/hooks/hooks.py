"""What Slurm runs around a job. Every hook ends in time and never fails.

The steps of a hook do not depend on each other: where one fails, the system log says so and the
others are done.

| hook | runs as, where | does |
|---|---|---|
| prolog | root, each node | compares the allocation with the plan, enters the job map, starts MPS |
| epilog | root, each node | clears the job map, stops MPS |
| task-prolog | user, each task | prints rank order, NIC hints, counts without models, and MPS |
| prolog-slurmctld, epilog-slurmctld | SlurmUser, controller | wake roostd |
"""

import contextlib
import re
import signal
import syslog
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, assert_never

from roost_slurm.hooks import hook_job_map, hook_seats
from roost_slurm.hooks.hook_agent import Agent, AgentError, Plan
from roost_slurm.hooks.hook_env import HookEnv, parse_env

# Jobs wait for hooks, and reading modules is most of what they do: what only some need is imported
# where they need it, and nothing is a dataclass, which takes a fifth of a task prolog's CPU time.
if TYPE_CHECKING:
    from roost_slurm.hooks.hook_mps import Mps
    from roost_slurm.text.scontrol import JobDetail

# Together under the 0.8 s after which hook.sh ends a hook; starting Python takes up to 0.1 s.
DEADLINE_S = 0.65
AGENT_TIMEOUT_S = 0.2
SCONTROL_TIMEOUT_S = 0.3
_OPTED_IN = re.compile(r"(?:^|\s)roost:\S*share=yes")  # as job_submit.lua reads it


class HookName(StrEnum):
    """Names on the command line."""

    PROLOG = "prolog"
    EPILOG = "epilog"
    TASK_PROLOG = "task-prolog"
    PROLOG_SLURMCTLD = "prolog-slurmctld"
    EPILOG_SLURMCTLD = "epilog-slurmctld"


class HookDeadline(Exception):
    """The hook took too long and gave up."""


AllocationLookup = Callable[[HookEnv], tuple[int, ...] | None]


class Surroundings(NamedTuple):
    """Everything outside a hook that it reads or writes."""

    agent: Agent
    spool_file: Path
    job_map_folder: Path
    allocation: AllocationLookup
    say: Callable[[str], None]  # to the task that Slurm starts, by stdout
    warn: Callable[[str], None]
    has_seats: bool = False  # Slurm has second seats for the GPUs of this node
    seats_folder: Path | None = None  # what Prolog finds out for the tasks
    mps: "Mps | None" = None  # where the site asks for MPS
    has_opted_in: Callable[[HookEnv], bool] = lambda _env: False
    jobs_on_node: Callable[[HookEnv], frozenset[int] | None] = lambda _env: None

    @classmethod
    def of_runtime(
        cls, folder: Path, slurm_conf: str | None, *, mps: bool = False
    ) -> "Surroundings":
        """Return the real surroundings, below a runtime folder such as /run/roost."""
        return cls(
            agent=Agent(agent_socket(folder), AGENT_TIMEOUT_S),
            spool_file=folder / "spool" / "events",
            job_map_folder=folder / "job-map",
            allocation=lambda env: ask_scontrol(env, slurm_conf),
            say=lambda text: print(text, flush=True),
            warn=lambda text: syslog.syslog(syslog.LOG_WARNING, text),
            has_seats=Path(hook_seats.SEAT_FOLDER).is_dir(),
            seats_folder=folder.with_name(f"{folder.name}-seats"),
            mps=_mps(folder.with_name(f"{folder.name}-mps")) if mps else None,
            has_opted_in=lambda env: ask_opted_in(env, slurm_conf),
            jobs_on_node=lambda env: ask_jobs_on_node(env, slurm_conf),
        )


def _mps(folder: Path) -> "Mps":
    from roost_slurm.hooks.hook_mps import Mps

    return Mps(folder)


def agent_socket(runtime_folder: Path) -> Path:
    """Return the probe's socket: /run/roost-probe/agent.sock beside /run/roost.

    The probe has a folder of its own, because systemd gives a unit's runtime folder to one user and
    removes it when the unit stops. A controller may be a node as well.
    """
    return runtime_folder.with_name(f"{runtime_folder.name}-probe") / "agent.sock"


def run(name: HookName, environ: Mapping[str, str], around: Surroundings) -> None:
    """Run a hook. Whatever goes wrong becomes a warning in the system log, never an exit code."""

    def give_up(_signal: int, _frame: FrameType | None) -> None:
        raise HookDeadline(f"gave up after {DEADLINE_S} s")

    signal.signal(signal.SIGALRM, give_up)
    try:
        signal.setitimer(signal.ITIMER_REAL, DEADLINE_S)
        try:
            _run(name, parse_env(environ), around)
        finally:  # before the warning: a deadline in the middle of it would leave this function
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Exception as error:  # noqa: BLE001 - a hook that fails drains the node
        around.warn(f"roost-slurm hook {name}: {type(error).__name__}: {error}")


def _run(name: HookName, env: HookEnv, around: Surroundings) -> None:
    match name:
        case HookName.PROLOG:
            prolog(env, around)
        case HookName.EPILOG:
            epilog(env, around)
        case HookName.TASK_PROLOG:
            task_prolog(env, around)
        case HookName.PROLOG_SLURMCTLD | HookName.EPILOG_SLURMCTLD:
            from roost_slurm.hooks import spool

            event = spool.Started if name is HookName.PROLOG_SLURMCTLD else spool.Ended
            spool.append(around.spool_file, event(env.roost_job_id))
        case _:
            assert_never(name)


def prolog(env: HookEnv, around: Surroundings) -> None:
    """Report a GPU job's real allocation to the agent, and enter it in the job map."""
    if not env.job_gpus:
        return
    plan, allocated = _plan(env, around), None
    with _step("allocation", env, around):
        allocated = _allocated(env, plan, around)
    if plan.managed and allocated is not None:
        with _step("report", env, around):
            if not around.agent.report_allocated(env.job_id, allocated):
                around.warn(
                    f"job {env.job_id} got GPUs {allocated}, roostd chose {plan.gpu_indices}"
                )
    if around.has_seats and around.seats_folder and allocated:
        with _step("seats", env, around):
            hook_seats.remember(around.seats_folder, env.job_id, allocated)
    known = allocated or plan.gpu_indices or env.job_gpus
    with _step("job map", env, around):
        hook_job_map.write(around.job_map_folder, env.job_id, known)
    if around.mps and env.user_id and len(allocated or ()) == 1:
        with _step("MPS", env, around):
            if around.has_opted_in(env):
                jobs = partial(around.jobs_on_node, env)
                around.mps.start(env.job_id, env.user_id, known[0], jobs)


@contextlib.contextmanager
def _step(name: str, env: HookEnv, around: Surroundings) -> Iterator[None]:
    """Warn of what goes wrong in a step; the hook's deadline ends the hook all the same."""
    try:
        yield
    except HookDeadline:
        raise
    except Exception as error:  # noqa: BLE001 - a hook that fails drains the node
        around.warn(f"job {env.job_id}: {name}: {type(error).__name__}: {error}")


def _allocated(env: HookEnv, plan: Plan, around: Surroundings) -> tuple[int, ...] | None:
    """Return the GPUs of a job on this node; slurmctld is asked only where a part needs it."""
    if plan.managed and set(env.job_gpus) == set(plan.gpu_indices):
        return plan.gpu_indices  # Prolog's variable may leave out GPUs, but invents none
    wants_map = around.job_map_folder.exists()
    if not (plan.managed or wants_map or around.has_seats or around.mps):
        return None
    return around.allocation(env)


def epilog(env: HookEnv, around: Surroundings) -> None:
    """Clear what Prolog has set up for a job."""
    if around.seats_folder:
        with _step("seats", env, around):
            hook_seats.forget(around.seats_folder, env.job_id)
    with _step("job map", env, around):
        hook_job_map.remove(around.job_map_folder, env.job_id)
    if around.mps:
        with _step("MPS", env, around):
            around.mps.stop(env.job_id)


def task_prolog(env: HookEnv, around: Surroundings) -> None:
    """Say what Slurm should change in the task's environment."""
    plan = _plan(env, around)
    with _step("environment", env, around):
        for line in task_prolog_lines(env, plan):
            around.say(line)
    with _step("seats", env, around):
        for line in second_seat_lines(env, plan, around):  # may ask Slurm: the rest is said
            around.say(line)
    if around.mps:
        with _step("MPS", env, around):
            for line in around.mps.lines(env.job_id):
                around.say(line)


def task_prolog_lines(env: HookEnv, plan: Plan) -> list[str]:
    """Return what Slurm should change in the task's environment, in TaskProlog's syntax."""
    # srun takes its request from these; job_submit.lua turned the model into a node feature.
    lines = [f"export {name}={count}" for name, count in env.model_counts.items()]
    if not plan.managed:
        return lines
    order = [gpu for gpu in plan.rank_order if gpu in env.visible_gpus]
    # Where the devices cgroup hides the other GPUs, CUDA counts from 0 and these are not the
    # allocated indices: then nothing may be set. The batch step has only SLURM_JOB_GPUS.
    unconstrained = set(env.visible_gpus) == set(env.step_gpus or env.job_gpus)
    if unconstrained and len(order) == len(env.visible_gpus) and order != [*env.visible_gpus]:
        lines.append(f"export CUDA_VISIBLE_DEVICES={','.join(map(str, order))}")
    nics = [plan.nics[gpu] for gpu in plan.rank_order if gpu in plan.nics]
    if nics and len(nics) == len(plan.rank_order) and not env.chooses_nics:
        # "=": exactly these; NCCL takes mlx5_1 for mlx5_10 as well otherwise.
        lines.append(f"export NCCL_IB_HCA=={','.join(dict.fromkeys(nics))}")
    return lines


def second_seat_lines(env: HookEnv, plan: Plan, around: Surroundings) -> list[str]:
    """Return the devices of a task on second seats, where Slurm does not hide the other GPUs.

    Slurm numbers the second seats of N GPUs from N on, and says so to CUDA, which knows N devices.
    """
    given = env.step_gpus or env.job_gpus
    if not around.has_seats or not given or set(env.visible_gpus) != set(given):
        return []
    if plan.managed and set(env.job_gpus) == set(plan.gpu_indices):
        return []
    folder = around.seats_folder
    allocated = (folder and hook_seats.recall(folder, env.job_id)) or around.allocation(env) or ()
    if len(allocated) != len(env.job_gpus) or set(allocated) == set(env.job_gpus):
        return []
    gpu_of = dict(zip(sorted(env.job_gpus), allocated, strict=True))
    devices = [str(gpu_of[index]) for index in env.visible_gpus if index in gpu_of]
    return [f"export CUDA_VISIBLE_DEVICES={','.join(devices)}"]


def ask_scontrol(env: HookEnv, slurm_conf: str | None) -> tuple[int, ...] | None:
    """Return the GPUs that Slurm gave a job on this node; None when it cannot be found out.

    Prolog's own SLURM_JOB_GPUS is wrong for jobs with several GPU types (hook_env).
    """
    job = _shown(env.job_id, slurm_conf)
    held = {node.node: node.gpu_indices for node in job.allocated} if job else {}
    return held.get(env.node or "")


def ask_opted_in(env: HookEnv, slurm_conf: str | None) -> bool:
    """Return whether a job has opted in to share its GPUs, by its comment."""
    job = _shown(env.job_id, slurm_conf)
    return job is not None and _OPTED_IN.search(job.comment or "") is not None


def ask_jobs_on_node(env: HookEnv, slurm_conf: str | None) -> frozenset[int] | None:
    """Return the jobs that Slurm has on this node; None when it cannot be found out."""
    if not env.node:
        return None
    shown = _ask(("squeue", "-a", "-h", "-w", env.node, "-o", "%A"), slurm_conf)
    return None if shown is None else frozenset(map(int, filter(str.isdecimal, shown.split())))


@lru_cache(maxsize=1)
def _shown(job_id: int, slurm_conf: str | None) -> "JobDetail | None":
    """Ask slurmctld once in a hook."""
    from roost_slurm.text.scontrol import parse_jobs

    shown = _ask(("scontrol", "-d", "-o", "show", "job", str(job_id)), slurm_conf)
    return None if shown is None else parse_jobs(shown).get(job_id)


def _ask(argv: tuple[str, ...], slurm_conf: str | None) -> str | None:
    """Return what a command of Slurm's prints; None where it fails."""
    import subprocess

    safe = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    if slurm_conf is not None:
        safe["SLURM_CONF"] = slurm_conf
    try:
        return subprocess.run(
            argv,
            env=safe,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SCONTROL_TIMEOUT_S,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _plan(env: HookEnv, around: Surroundings) -> Plan:
    try:
        return around.agent.plan(env.job_id)
    except AgentError as error:
        around.warn(f"job {env.job_id}: {error}")
        return Plan(managed=False)
