"""What job_submit.lua costs, measured inside slurmctld: the time for which it holds its lock."""

import re
from dataclasses import replace

from roost_slurm.testing.cluster_plan import ClusterPlan
from roost_slurm.testing.local_slurm import LocalSlurm, LocalSlurmFailed

_END = "\nreturn slurm.SUCCESS\n"
# One submission calls the real function many times on the same job, put back before each call.
# os.clock is the CPU time of slurmctld: it also counts its other threads, never too little.
_TIMER = """
local measured = slurm_job_submit
function slurm_job_submit(job, partitions, uid)
  local request, features, took_s = job.tres_per_node, job.features, {}
  for i = 1, CALLS do
    job.tres_per_node, job.features, job.begin_time = request, features or "", 0
    local start = os.clock()
    measured(job, partitions, uid)
    took_s[i] = os.clock() - start
  end
  job.begin_time = 0
  for first = 1, CALLS, 50 do
    local last = math.min(first + 49, CALLS)
    slurm.log_info("submit_cost %s", table.concat(took_s, " ", first, last))
  end
  return slurm.SUCCESS
end
"""


def measure_s(script: str, *options: str, call_count: int = 1000) -> list[float]:
    """Return the CPU seconds of each call in a throw-away slurmctld, ascending.

    Args:
        script: job_submit.lua; its heartbeat must be fresh and its spool writable for user slurm.
        options: of sbatch; what the job asks for by --gres.
        call_count: how often the script is called.

    Raises:
        LocalSlurmFailed: slurmctld did not log the times.
    """
    head, end, _ = script.rpartition(_END)
    if not end:
        raise LocalSlurmFailed("job_submit.lua does not end in `return slurm.SUCCESS`")
    timed = head + _TIMER.replace("CALLS", str(call_count)) + _END
    plan = replace(ClusterPlan.uniform(1), job_submit_lua=timed)
    with LocalSlurm(plan) as cluster:
        cluster.run("sbatch", "--hold", *options, "--wrap", "true", check=False)
        found = re.findall(r"submit_cost ([\d.e+\- ]+)", cluster.controller_log)
    took_s = sorted(float(number) for line in found for number in line.split())
    if len(took_s) != call_count:
        raise LocalSlurmFailed(f"{len(took_s)} of {call_count} times in slurmctld's log")
    return took_s
