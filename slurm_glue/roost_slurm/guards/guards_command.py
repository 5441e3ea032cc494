"""`roost-slurm unpin` and `roost-slurm release`: free waiting jobs that roostd left behind."""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

BAD_INPUT = 2  # also: Slurm does not answer, or refuses


def add_unpin(parser: argparse.ArgumentParser) -> None:
    """Add what `unpin` has beside --runtime-folder."""
    parser.add_argument(
        "--others",
        action="store_true",
        help="after a move: take back the pins that a roostd of another host or folder has left",
    )
    parser.set_defaults(run=unpin)


def unpin(args: argparse.Namespace) -> int:
    """Unpin and print the jobs; return 0, or BAD_INPUT where Slurm does not answer."""
    import syslog

    from roost_slurm.guards import orphaned_pins, seat_guards
    from roost_slurm.text.versions import UnknownVersion

    job_ids: list[str] = []
    conf = Path(os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"))
    if not args.others and (
        folder := orphaned_pins.beats_elsewhere(args.runtime_folder, conf, time.time())
    ):
        why = f"roostd lives and beats in {folder}; cure: --runtime-folder {folder}"
        print(f"roost-slurm unpin: {why}", file=sys.stderr)
        return BAD_INPUT
    try:
        if not args.others:
            for what in seat_guards.guard_seats(args.runtime_folder):
                syslog.syslog(syslog.LOG_WARNING, f"roost-slurm unpin: roostd is away, {what}")
        for job_id in orphaned_pins.unpin_orphans(args.runtime_folder, is_of_others=args.others):
            job_ids.append(job_id)
            print(job_id)
    except (OSError, subprocess.SubprocessError, UnknownVersion) as error:
        why = _why_no_answer(error)
        print(f"roost-slurm unpin: {why}", file=sys.stderr)
        syslog.syslog(syslog.LOG_WARNING, f"roost-slurm unpin: {why}")
        return BAD_INPUT
    finally:
        if job_ids:
            why = "another roostd has left them" if args.others else "roostd is dead"
            line = f"roost-slurm unpin: {why}, unpinned {' '.join(job_ids)}"
            syslog.syslog(syslog.LOG_WARNING, line)
    return 0


def add_release(parser: argparse.ArgumentParser) -> None:
    """Add what `release` has beside --runtime-folder."""
    parser.add_argument(
        "--lease-s",
        type=_lease_s,
        default=0.0,
        metavar="SECONDS",
        help="slurm.lease_s of the stopped roostd, where it was longer than an hour: without it, a"
        " begin time more than an hour ahead counts as the user's",
    )
    parser.set_defaults(run=release)


def _lease_s(text: str) -> float:
    from roost_slurm.hooks.heartbeat import LONGEST_LEASE_S

    wrong = argparse.ArgumentTypeError(f"{text}: want 1 to {LONGEST_LEASE_S} seconds")
    try:
        lease_s = float(text)
    except ValueError as error:
        raise wrong from error
    if not 1 <= lease_s <= LONGEST_LEASE_S:  # nan too: no begin time would count as a user's
        raise wrong
    return lease_s


def release(args: argparse.Namespace) -> int:
    """Release and print the jobs; return 0, or BAD_INPUT while roostd is alive or Slurm refuses."""
    from roost_slurm.guards import left_leases

    try:
        for job_id in left_leases.end_leases(args.runtime_folder, longest_lease_s=args.lease_s):
            print(job_id)
    except left_leases.RoostdRuns as error:
        print(f"roost-slurm release: {error}", file=sys.stderr)
        return BAD_INPUT
    except (OSError, subprocess.SubprocessError) as error:
        print(f"roost-slurm release: {_why_no_answer(error)}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _why_no_answer(error: Exception) -> str:
    """Return in one line why a command of Slurm failed, and the cure."""
    from roost_slurm.command_run import CURE, DEADLINE_S

    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else type(error).__name__
    if isinstance(error, subprocess.TimeoutExpired):
        return f"{error.cmd[0]}: no answer in {DEADLINE_S:g} s; {CURE}"
    if isinstance(error, subprocess.CalledProcessError):
        # scontrol names first each place where it looked.
        said = str(error.stderr or "").strip().splitlines() or [f"exit code {error.returncode}"]
        return f"{error.cmd[0]}: {said[-1]}; {CURE}"
    return str(error)
