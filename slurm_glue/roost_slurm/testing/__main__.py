"""`python -m roost_slurm.testing`: keep a throw-away cluster up until Ctrl-C."""

import argparse
import signal
import sys

from roost_slurm.testing.availability import LocalSlurmUnavailable
from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm, LocalSlurmFailed


def main() -> int:
    """Start a cluster, print how to reach it, stop it on SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m roost_slurm.testing", description=__doc__)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--gpus", type=int, default=8, help="on each node")
    args = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell's background jobs ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    try:
        with LocalSlurm(ClusterPlan.uniform(args.nodes, args.gpus)) as cluster:
            print(f"export SLURM_CONF={cluster.folder.slurm_conf}", flush=True)
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except (LocalSlurmUnavailable, LocalSlurmFailed) as error:
        print(f"roost_slurm.testing: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
