"""What `roostctl report` costs: time and memory of the command over a journal of many jobs.

The journal is made here: jobs of 200 users on 1,000 nodes in a week, half of them watched and half
enforced. `roostctl report` runs as a process of its own. The bars with 100,000 jobs are 30 s and
500 MB.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import _harness
import numpy as np

from roost_engine.domain.model import JobId, NodeName, NodeShare
from roost_formats.journal.journal import Journal
from roost_formats.journal.past_jobs import PastJob

WEEK_S = 7 * 86_400.0
LIMITS = ("QOSMaxGRESPerUser", "AssocGrpGRES", "Licenses")


def jobs(count: int, until_s: float, seed: int = 1) -> Iterator[PastJob]:
    """Yield jobs that ended in the week before a time, in order."""
    rng = np.random.default_rng(seed)
    for number, ended_s in enumerate(np.sort(rng.uniform(until_s - WEEK_S, until_s, count))):
        run_s, waited_s = rng.lognormal(7.0, 1.5), float(rng.exponential(300.0))
        started_s = float(ended_s - run_s)
        node, gpus = NodeName(f"gpu{rng.integers(1000):04}"), (0, 1, 2, 3)
        is_same, limit = rng.random() < 0.6, rng.random() < 0.1
        yield PastJob(
            job_id=JobId(str(number)),
            user_id=10_000 + int(rng.integers(200)),
            partition=("main", "debug", "long")[number % 3],
            name=f"train-{number % 97}",
            account="vision",
            gpu_count=4,
            is_binding=bool(number % 2),
            queued_s=started_s - waited_s,
            decided_s=started_s - waited_s * float(rng.random()),
            started_s=started_s,
            ended_s=float(ended_s),
            planned=(NodeShare(node, gpus),),
            allocated=(NodeShare(node, gpus if is_same else (0, 2, 4, 6)),),
            link_score=880 if is_same else 240,
            planned_link_score=880,
            best_link_score=880,
            stock_link_score=240,
            tier=0,
            planned_tier=0,
            limit=LIMITS[number % 3] if limit else "",
            limited_s=waited_s if limit else 0.0,
            speeds_frac=(1.0, 0.8, 0.6),
        )


def make_journal(folder: Path, count: int) -> None:
    """Write a journal with that many past jobs, the last of them now."""
    journal = Journal.open(folder)
    batch: list[PastJob] = []
    for job in jobs(count, time.time()):
        batch.append(job)
        if len(batch) == 5_000:
            journal.write(batch)
            batch.clear()
    journal.write(batch)
    journal.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="roost-") as name:
        folder = Path(name)
        make_journal(folder, options.jobs)
        page = folder / "report.html"
        command = [sys.executable, "-m", "roostctl.main", "report", "--journal", name]
        began_s = time.monotonic()
        command += ["--last", "8d", "--html", str(page)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        figures: dict[str, object] = {
            "job_count": options.jobs,
            "report_s": time.monotonic() - began_s,
            "journal_mib": (folder / "journal.sqlite").stat().st_size / 2**20,
            "page_kib": page.stat().st_size / 2**10,
        }
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures["processor_s"] = used.ru_utime + used.ru_stime
    figures["peak_mib"] = used.ru_maxrss / 2**10
    _harness.report(figures, as_json=options.json)


if __name__ == "__main__":
    main()
