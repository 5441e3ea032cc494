"""A real report: a throw-away Slurm in shadow mode runs random jobs, then `roostctl report`.

Slurm places every job itself, and roostd beside it notes what it would have chosen.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence

import _harness

from roost_demo.stack import Stack

REQUESTS = (1, 2, 2, 2, 4, 4, 8)
LONGEST_S = 12


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the jobs and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=_harness.whole, default=60)
    parser.add_argument("--seed", type=_harness.whole_or_0, default=1)
    parser.add_argument("--columns", type=_harness.whole, default=96)
    options = parser.parse_args(arguments)
    _harness.stop_on_signals()
    rng = random.Random(options.seed)
    settings = {"partitions": {"main": {"mode": "shadow"}}, "slurm": {"poll_interval_s": 2.0}}
    with Stack(settings=settings) as stack:
        job_ids = []
        for number in range(options.jobs):
            user = ("games", "backup", "mail")[number % 3]  # every Debian has them
            gpus, run_s = rng.choice(REQUESTS), rng.randint(2, LONGEST_S)
            request = f"--gres=gpu:{gpus}"
            job_ids.append(stack.slurm.submit(request, script=f"sleep {run_s}", user=user))
            time.sleep(rng.random() / 2)
        for job_id in job_ids:
            stack.slurm.wait_for_state(job_id, "COMPLETED", timeout_s=300.0)
        time.sleep(5.0)  # roostd polls the queue every 2 s
        command = [sys.executable, "-m", "roostctl.main", "report"]
        journal = str(stack.folder / "state")
        env = stack.slurm.env | {"COLUMNS": str(options.columns)}
        subprocess.run([*command, "--journal", journal, "--last", "1h"], check=True, env=env)


if __name__ == "__main__":
    main()
