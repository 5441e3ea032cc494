"""Whether roostd's memory, files and disk stay flat: a week of jobs, in minutes.

A daemon on a Slurm in memory gets jobs that end at once, without a pause, while other jobs wait: it
gets no more while MOST_JOBS are there, however slow the machine is. A
week of 500 jobs an hour is 84,000 jobs; the figures say how many went through. What grows is
the slope over the second half of the time, after caches and histories have filled.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import _harness
import numpy as np
from _stand_in_daemon import StandInDaemon, open_file_count, rss_mb

NODE_COUNT, BATCH = 20, 20
MOST_JOBS = 200
JOURNAL_BYTES = 64 << 20  # small, so that its pruning is part of the run
_LOOKS = 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=_harness.number, default=10.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    _harness.report(measure(options.minutes), as_json=options.json)


def measure(minutes: float) -> dict[str, object]:
    """Return the figures of a run."""
    settings: dict[str, object] = {"journal": {"max_bytes": JOURNAL_BYTES}}
    seconds, job_count = minutes * 60.0, 0
    looks: list[tuple[float, float, float, float]] = []  # minutes, MB, files, MB on disk
    with StandInDaemon(NODE_COUNT, settings=settings) as daemon:
        state = Path(daemon.ready["state_dir"])
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < seconds:
            if daemon.tell(f"end {BATCH}")["jobs"] < MOST_JOBS:
                daemon.tell(f"submit {BATCH}")
                job_count += BATCH
            time.sleep(0.05)
            if passed_s >= len(looks) * seconds / _LOOKS:
                looks.append((passed_s / 60.0, *_look(daemon, state)))
        figures = daemon.tell("figures")
    first, last = looks[len(looks) // 2], looks[-1]
    return {
        "minutes": minutes,
        "jobs": job_count,
        "jobs_left": figures["jobs"],
        "rss_mb_half": first[1],
        "rss_mb_end": last[1],
        "rss_mb_per_10000_jobs": slope(looks, 1) * minutes / job_count * 10_000,
        "files_half": first[2],
        "files_end": last[2],
        "disk_mb_end": last[3],
        "longest_stall_ms": figures["longest_stall_ms"],
        "longest_turn_cpu_ms": figures["longest_turn_cpu_ms"],
    }


def slope(looks: Sequence[Sequence[float]], column: int) -> float:
    """Return the growth a minute, by least squares over the second half."""
    late = np.asarray(looks[len(looks) // 2 :])
    if len(late) < 2:
        return 0.0
    return float(np.polyfit(late[:, 0], late[:, column], 1)[0])


def _look(daemon: StandInDaemon, state: Path) -> tuple[float, float, float]:
    disk_mb = sum(path.stat().st_size for path in state.iterdir() if path.is_file()) / 1e6
    return rss_mb(daemon.pid), float(open_file_count(daemon.pid)), disk_mb


if __name__ == "__main__":
    main()
