"""Small traces of users who repeat themselves, for the tests of models of run times."""

import numpy as np

from roost_sim.traces.trace import Labels, Trace, make_trace


def repeating(count: int = 1_200, seed: int = 0, users: int = 8) -> Trace:
    """Users whose jobs take long or short, by the name of the job; ten minutes from job to job."""
    rng = np.random.default_rng(seed)
    user_id = rng.integers(0, users, count).astype(np.int32)
    is_long = rng.random(count) < 0.4
    typical_s = np.where(is_long, 20_000.0, 60.0) * (1 + user_id)
    names = Labels(is_long.astype(np.int32), ("test", "train"))
    return make_trace(
        "made",
        submit_s=(600.0 * np.arange(count)).tolist(),
        duration_s=typical_s * rng.lognormal(0.0, 0.4, count),
        gpu_count=np.where(is_long, 8, 1).astype(np.int32),
        user_id=user_id,
        labels={"job_name": names},
        time_limit_s=np.full(count, 86_400.0),
        wait_s=np.zeros(count),
        user_names=tuple(f"u{number}" for number in range(users)),
    )


def as_csv(trace: Trace) -> str:
    """The trace as a file that roost-sim reads."""
    rows = ["submit_s,duration_s,num_gpus,user,job_name,time_limit_s"]
    for number in range(len(trace)):
        rows.append(
            f"{trace.submit_s[number]:.0f},{trace.duration_s[number]:.0f}"
            f",{trace.gpu_count[number]},{trace.user_name(number)}"
            f",{trace.job_name.of(number)},{trace.time_limit_s[number]:.0f}"
        )
    return "\n".join(rows) + "\n"
