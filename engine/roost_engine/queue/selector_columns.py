"""The columns that the job selector reads, for each waiting job and for the cluster.

| input | columns | meaning |
|---|---|---|
| jobs | `run_T_G` | image of a job: share of such jobs that run longer than T, on G GPUs |
| jobs | `ln_...` and others | numbers of the job: JOB_NUMBERS |
| cluster | `busy_N_G`, `left_N_G` | image of the cluster: whether held, and how long still |
| cluster | others | numbers of the cluster and of its queue: CLUSTER_NUMBERS |

A change of a column's meaning is a new SCHEMA_VERSION. Page: docs/learned.md.
"""

SCHEMA_VERSION = 2

IMAGE_TIMES_S = (60.0, 300.0, 900.0, 3_600.0, 10_800.0, 43_200.0, 172_800.0, 604_800.0)
IMAGE_GPUS = (1, 2, 4, 8, 16, 32, 64, 128)  # each column shows the GPUs above the one before
IMAGE_NODE_COUNT = 32
IMAGE_GPU_COUNT = 8

JOB_NUMBERS = (
    "ln_gpus",
    "ln_nodes",
    "ln_rest",  # expected remaining run time
    "ln_service",  # the same times GPUs
    "ln_median",
    "ln_p90",
    "ln_known",  # jobs like it that ended
    "is_of_user",  # whether some of them are its user's
    "has_limit",
    "ln_ran",  # before it was stopped
    "ln_waited",
    "ln_trusted_due",  # seconds until it is due in the learned order, by trust as of now
    "waited_per_rest",
    "fits",  # whether some of its shapes has free GPUs now; CPUs and memory are not counted
    "of_free",  # GPUs, as a share of the free ones
    "shorter_frac",  # waiting jobs with less expected service
    "smaller_frac",  # waiting jobs with fewer GPUs
)
CLUSTER_NUMBERS = (
    "free_frac",
    "ln_free",
    "ln_gpus",
    "ln_nodes",
    "nodes_with_1_frac",
    "nodes_with_2_frac",
    "nodes_with_4_frac",
    "nodes_with_8_frac",
    "ln_waiting",
    "ln_waiting_gpus_per_gpu",
    "ln_backlog",  # expected service of the queue over the cluster's GPUs
    "fitting_frac",
)

JOB_COLUMNS: tuple[str, ...] = (
    *(f"run_{span_s:.0f}_{gpus}" for span_s in IMAGE_TIMES_S for gpus in IMAGE_GPUS),
    *JOB_NUMBERS,
)
CLUSTER_COLUMNS: tuple[str, ...] = (
    *(
        f"{what}_{node}_{gpu}"
        for what in ("busy", "left")
        for node in range(IMAGE_NODE_COUNT)
        for gpu in range(IMAGE_GPU_COUNT)
    ),
    *CLUSTER_NUMBERS,
)
