"""Kill the parts of a running Roost again and again, and check what became of every job.

`make crash-test` runs it: `python -m tests.crash.crash_run --kills 500 --seed 1`. It starts a real
Slurm on the loopback interface, so it needs root, Slurm and munge. The seed decides which part is
killed, when, and what is submitted; the machine's timing does the rest.

`--control` kills slurmctld and slurmd of a Slurm without Roost, with the same jobs: what it reports
is what Slurm itself does.

`--unsaved` kills slurmctld alone, also before it has saved what has just happened. A slurmctld that
has forgotten the start of a job starts it again; where the first launch still has a process on the
node, slurmd refuses the second, and slurmctld drains the node ("Duplicate jobid"). With `--control`
the same kills hit a Slurm without Roost.

Checked: no job is lost, each runs once to its end on as many GPUs as it asked for, no GPU is given
to two jobs at one time, and no job is held longer than its lease after roostd has died. Where one
of these is broken the logs of all parts are kept. A restarted slurmctld 22.05 may strand GPUs, see
roost_slurm.text.gres_used. So jobs that wait long after the last kill count as left by Slurm where
it shows stranded GPUs and starts the jobs after `scontrol reconfigure`.
"""

import argparse
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path
from typing import get_args

from tests.crash.crash_report import Report
from tests.crash.evidence import gpus_of_nodes, keep_logs
from tests.crash.lost_jobs import LostJobs
from tests.e2e.ledger import Outcome, assert_none_twice, job_states, outcomes, submit
from tests.slurm_glue.stranding import stranded_count

from roost_demo.stack import NodeKind, Stack, StackFailed
from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.cluster_plan import ClusterPlan, HookPlan
from roost_slurm.testing.local_slurm import LocalSlurmFailed
from roost_slurm.text.commands import show_nodes
from roost_slurm.text.scontrol import parse_nodes
from roostd.ops.failpoint import FailPoint

LEASE_S = 10
NODES = (NodeKind(name="n1", topology="bridges8"), NodeKind(name="n2", topology="cube8"))
_FINAL = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL")
_MOST_UNFINISHED = 12  # jobs; about twice what the nodes hold
_SLACK_S = 3.0  # Slurm's times are whole seconds, and a busy machine is late
_SAVED_AFTER_S = 6.0  # slurmctld saves its state 5 s after a change at the latest
_UNSAVED_S = 3.0
_REST_S = 25.0  # after such a kill: the next one would hide what becomes of the jobs
_FAIL_POINT_S = 8.0
_REQUEUED_S = 121.0  # so far ahead is the begin time of a job that Slurm requeues by itself
_END_S = 150.0  # longer than that
_RECONFIGURED_S = 60.0  # until nodes have registered again and the jobs left have run
_REGISTERED_S = 30.0
_RESTARTED_S = 30.0
_LOGS = "The logs are in"
# Places that stop running jobs are reached only where preemption is on.
FAIL_POINTS = tuple(
    point for point in get_args(FailPoint) if not point.endswith(("requeue", "return"))
)


class CrashRun:
    """Kills and submissions on a running stack.

    Args:
        stack: the running Roost.
        seed: of everything that is drawn.
        say: told of each kill.
        is_control: whether only Slurm's daemons are killed, as for a stack without Roost.
        is_unsaved: whether only slurmctld is killed, also before it has saved its state.
    """

    def __init__(
        self,
        stack: Stack,
        seed: int,
        say: Callable[[str], None],
        *,
        is_control: bool = False,
        is_unsaved: bool = False,
    ) -> None:
        self._stack, self._random, self._say = stack, random.Random(seed), say
        self._asked: dict[str, int] = {}  # GPUs of each job that is not over
        self._over: dict[str, Outcome] = {}
        self._restarts_s: list[float] = []  # of slurmctld, by the wall clock
        self._requeued: set[str] = set()  # with a begin time of Slurm's own, two minutes ahead
        self.report = Report(seed)
        self._lost = LostJobs(stack.slurm, self._asked, self.report)
        self._is_control = is_control
        self._is_unsaved = is_unsaved
        kills_of_slurm = (
            (self._kill_slurmd, 1),
            (self._restart_slurmctld, 1),
            (self._kill_slurmctld, 1),
        )
        self._weighted: tuple[tuple[Callable[[], str], int], ...] = (
            *(() if is_control or is_unsaved else self._kills_of_roost()),
            *(((self._kill_slurmctld, 1),) if is_unsaved else kills_of_slurm),
        )

    def _kills_of_roost(self) -> tuple[tuple[Callable[[], str], int], ...]:
        return (
            (self._kill_roostd, 4),
            (self._kill_roostd_at_fail_point, 4),
            (self._kill_probe, 2),
        )

    def kill_one(self) -> None:
        """Submit some jobs, kill a part at a random instant, and bring it back."""
        self._submit()
        kills = [kill for kill, weight in self._weighted for _ in range(weight)]
        time.sleep(self._random.uniform(0.0, 0.6))
        what = self._random.choice(kills)()
        self.report.kills[what] += 1
        self._say(what)
        if self._is_control:
            self._check_leases()
        self._collect()

    def finish(self) -> Report:
        """Wait until every job is over, and return what was found."""
        self._wait_for_jobs(_END_S)
        if self._asked:
            self._end_left()
        try:
            assert_none_twice(self._over)
        except AssertionError as error:
            self._complain(str(error))
        if self.report.problems:
            self.report.logs = self.keep_logs()
        return self.report

    def keep_logs(self) -> str:
        """Keep the logs of all parts, say where, and return the folder."""
        folder = keep_logs([self._stack.slurm.folder.log, self._stack.folder])
        self._say(f"{_LOGS} {folder}")
        return str(folder)

    def _wait_for_jobs(self, longest_s: float) -> None:
        end_s = time.monotonic() + longest_s
        while self._asked and time.monotonic() < end_s:
            time.sleep(0.5)
            self._collect()

    def _end_left(self) -> None:
        """Find out whether slurmctld starts the jobs left once it has counted its GPUs again.

        Jobs that it starts then have waited for GPUs that it had stranded, where it shows some.
        """
        slurm, report = self._stack.slurm, self.report
        shown = slurm.run(*show_nodes(), check=False)
        report.left_on, report.left_count = gpus_of_nodes(shown), len(self._asked)
        report.stranded_gpu_count = sum(map(stranded_count, parse_nodes(shown)))
        stuck = {
            job_id: slurm.run("scontrol", "-o", "show", "job", job_id, check=False)
            for job_id in self._asked
        }
        before_count = report.completed_count
        slurm.run("scontrol", "reconfigure", check=False)
        self._wait_for_jobs(_RECONFIGURED_S)
        report.reconfigured_count = report.completed_count - before_count
        for job_id, record in stuck.items():
            if job_id in self._asked or not report.stranded_gpu_count:
                self._complain(
                    f"job {job_id} is not over {_END_S:g} s after the last kill: {record}"
                )

    # -- kills: each returns what it was -----------------------------------------------------

    def _kill_roostd(self) -> str:
        self._stack.stop_roostd(signal.SIGKILL)
        if self._random.random() < 0.3:
            time.sleep(self._random.uniform(0.0, 2.0))
        self._check_leases()
        self._stack.start_roostd()
        return "roostd"

    def _kill_roostd_at_fail_point(self) -> str:
        point = self._random.choice(FAIL_POINTS)
        count = self._random.randint(1, 3)
        self._stack.stop_roostd(signal.SIGKILL)
        is_dead = False
        try:
            self._stack.start_roostd(ROOST_FAILPOINT=f"{point}:{count}")
        except StackFailed:
            is_dead = True  # it died before it served
        end_s = time.monotonic() + _FAIL_POINT_S
        while not is_dead and time.monotonic() < end_s:
            self._submit()
            time.sleep(0.2)
            is_dead = not _is_running(self._stack.roostd_pid)
        self._stack.stop_roostd(signal.SIGKILL)
        self._check_leases()
        self._stack.start_roostd()
        return f"roostd {point}" if is_dead else "roostd"

    def _kill_probe(self) -> str:
        name = self._random.choice(NODES).name
        self._stack.stop_probe(name, signal.SIGKILL)
        self._stack.start_probe(name)
        return "probe"

    def _kill_slurmd(self) -> str:
        name = self._random.choice(NODES).name
        self._stack.slurm.stop_node(name)
        self._stack.slurm.start_node(name)
        self._lost.note_kill()
        return "slurmd"

    def _restart_slurmctld(self) -> str:
        self._restarts_s.append(time.time())
        self._stack.slurm.restart_controller()
        self._lost.note_kill()
        return "slurmctld, stopped"

    def _kill_slurmctld(self) -> str:
        # What slurmctld had not saved is lost with or without Roost: submissions are saved first.
        # Jobs that start while this waits may be unsaved all the same.
        unsaved_s = self._random.uniform(0.0, _UNSAVED_S)
        time.sleep(unsaved_s if self._is_unsaved else _SAVED_AFTER_S)
        self._restarts_s.append(time.time())
        self._stack.slurm.restart_controller(kill=True)
        self._lost.note_kill()
        if self._is_unsaved:
            self._wait_for_jobs(_REST_S)
        return "slurmctld, killed"

    # -- jobs --------------------------------------------------------------------------------

    def _submit(self) -> None:
        for _ in range(self._random.randint(1, 4)):
            if len(self._asked) >= _MOST_UNFINISHED:
                return
            gpu_count = self._random.choice((1, 1, 2, 2, 3, 4, 6, 8))
            command = f"sleep {self._random.uniform(0.1, 1.5):.2f}"
            job_id = self._submit_one(gpu_count, command)
            self._asked[job_id] = gpu_count
            self.report.job_count += 1

    def _submit_one(self, gpu_count: int, command: str) -> str:
        # Until the nodes have registered, a slurmctld that was restarted refuses jobs with GPUs,
        # with or without Roost.
        end_s = time.monotonic() + _REGISTERED_S
        while True:
            try:
                return submit(self._stack.slurm, f"--gres=gpu:{gpu_count}", command=command)
            except LocalSlurmFailed:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.5)

    def _collect(self) -> None:
        """Check the jobs that are over; slurmctld forgets them after a while."""
        states = job_states(self._stack.slurm)
        if not states:
            return  # slurmctld does not answer yet
        self._lost.cancel()
        ended = [job_id for job_id in self._asked if states.get(job_id) in _FINAL]
        for job_id in [job_id for job_id in self._asked if job_id not in states]:
            del self._asked[job_id]
            if self._is_unsaved:
                self.report.forgotten_count += 1
            else:
                self._complain(f"job {job_id} is lost: Slurm does not know it")
        for job_id, outcome in outcomes(self._stack.slurm, ended).items():
            wanted, got = self._asked.pop(job_id), sum(map(len, outcome.gpus.values()))
            self._over[job_id] = outcome
            if outcome.state == "COMPLETED" and not got and self._began_after_restart(outcome):
                self.report.without_gpus_count += 1
            elif outcome.state != "COMPLETED" or got != wanted:
                output = self._stack.slurm.output(job_id)[-300:]
                shown = self._stack.slurm.run("scontrol", "-d", "-o", "show", "job", job_id)
                log = self._stack.slurm.controller_log.splitlines()
                lines = [line for line in log if f"JobId={job_id} " in f"{line} "]
                self._complain(
                    f"job {job_id} of {wanted} GPUs ended {outcome.state} on {got}: {output!r}\n"
                    f"{shown}\n" + "\n".join(lines[-20:])
                )
            else:
                self.report.completed_count += 1

    def _began_after_restart(self, outcome: Outcome) -> bool:
        return any(at_s <= outcome.began_s <= at_s + _RESTARTED_S for at_s in self._restarts_s)

    def _check_leases(self) -> None:
        """While roostd is dead: no job may be held longer than a lease from now on."""
        slurm, now_s = self._stack.slurm, time.time()
        format_ = "JobID:|,State:|,EligibleTime:|,RestartCnt:|"
        for line in slurm.run("squeue", "-h", "-O", format_, check=False).splitlines():
            job_id, state, eligible, restarts = (word.strip() for word in line.split("|")[:4])
            if state != "PENDING" or "T" not in eligible:
                continue
            held_s = datetime.fromisoformat(eligible).timestamp() - now_s - _SLACK_S
            if restarts != "0" and LEASE_S < held_s <= _REQUEUED_S:
                self._requeued.add(job_id)
                self.report.requeued_ahead_count = len(self._requeued)
            elif held_s > LEASE_S:
                shown = slurm.run("scontrol", "-o", "show", "job", job_id, check=False)
                self._complain(f"job {job_id} is held for {held_s:.0f} s after a kill: {shown}")

    def _complain(self, problem: str) -> None:
        self.report.problems.append(problem)
        self._say(f"BROKEN: {problem}")


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def crash(
    kill_count: int,
    seed: int,
    seconds: float | None,
    say: Callable[[str], None],
    *,
    is_control: bool = False,
    is_unsaved: bool = False,
) -> Report:
    """Run so many kills, or kills for so many seconds, and return what was found.

    Args:
        kill_count: the most kills.
        seed: of everything that is drawn.
        seconds: after which there are no more kills; None: no limit.
        say: told of each kill.
        is_control: whether to leave Roost out.
        is_unsaved: whether to kill slurmctld alone, also before it has saved its state.

    Raises:
        LocalSlurmUnavailable: there is no Slurm here.
        StackFailed, LocalSlurmFailed: a part does not come back; that is a finding too.
    """
    amend = _without_roost if is_control else lambda plan: plan
    with Stack(NODES, lease_s=LEASE_S, amend_plan=amend) as stack:
        if is_control:
            stack.stop_roostd()
        run = CrashRun(stack, seed, say, is_control=is_control, is_unsaved=is_unsaved)
        end_s = time.monotonic() + seconds if seconds is not None else float("inf")
        try:
            for _ in range(kill_count):
                if time.monotonic() >= end_s:
                    break
                run.kill_one()
            return run.finish()
        except (StackFailed, LocalSlurmFailed):
            run.keep_logs()
            raise


def _without_roost(plan: ClusterPlan) -> ClusterPlan:
    nothing = Path("/bin/true")  # in place of each hook: with one, Slurm launches jobs otherwise
    hooks = HookPlan(**{hook.name: nothing for hook in fields(HookPlan)})
    return replace(plan, job_submit_lua=None, cli_filter_lua=None, hooks=hooks)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command: 0 no promise was broken, 1 some were, 2 it cannot run here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500, help="default %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="stop after so long")
    parser.add_argument("--control", action="store_true", help="a Slurm without Roost")
    parser.add_argument("--unsaved", action="store_true", help="kill slurmctld before it saves")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    args = parser.parse_args(argv)
    began_s, count = time.monotonic(), 0

    def say(text: str) -> None:
        nonlocal count
        count += not text.startswith(("BROKEN", _LOGS))
        took_s = time.monotonic() - began_s
        print(f"[{count}/{args.kills}, {took_s:.0f} s] {text}", file=sys.stderr, flush=True)

    try:
        kind = {"is_control": args.control, "is_unsaved": args.unsaved}
        report = crash(args.kills, args.seed, args.seconds, say, **kind)
    except LocalSlurmUnavailable as error:
        print(f"crash-test: {error}", file=sys.stderr)
        return 2
    except (StackFailed, LocalSlurmFailed) as error:
        print(f"crash-test: seed {args.seed}, after {count} kills: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(report.json())
    else:
        report.print()
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
